"""The questions that a page may ask about runs, one function for each question. Servers, files and
notebooks share them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy

from backprobe.errors import BackprobeError, BadOption
from backprobe.record.exponents import table_of
from backprobe.rules import alerts as judged
from backprobe.rules.gap import Gap
from backprobe.rules.gaps import gaps
from backprobe.storage.runs.merged import LOGGED, RunReader
from backprobe.storage.runs.parting import partings
from backprobe.storage.runs.reduced import Binned, binned, stretches_of_nonfinite
from backprobe.view.packing import Packed, packed
from backprobe.view.recordings import RecordingOnDisk, ShownRecordings
from backprobe.view.runs import OpenRun, ShownRuns
from backprobe.view.shown import Shown
from backprobe.view.template import script_of, text_of

Query = Mapping[str, str]
MOST_BINS = 4000
MOST_NAMES, MOST_STRETCHES = 50, 200  # the most names and the most stretches of steps that are listed for a gap
TENTH = 0.1
SEPARATORS = (".", ":", "/")


class Answers:
    """Answers questions about some runs, and about other items that are shown with them. With ``is_rounded``, as in
    files, floating-point numbers of runs are rounded to four digits.
    """

    def __init__(
        self,
        runs: ShownRuns,
        shown: Sequence[Shown] = (),
        recordings: ShownRecordings | None = None,
        *,
        is_rounded: bool = False,
    ) -> None:
        self.runs, self._given, self.is_rounded = runs, shown, is_rounded
        self.recordings = recordings or ShownRecordings()

    @property
    def shown(self) -> list[Shown | RecordingOnDisk]:
        """The items that are shown with the runs: those that were given, and the recordings found in folders so far."""
        return [*self._given, *self.recordings.all()]

    def answer(self, question: str, query: Query) -> Packed:
        """The answer to a question. Raises LookupError and ValueError for an unknown question, and BackprobeError."""
        if question in WHOLE:
            return WHOLE[question](self, query)
        return QUESTIONS[question](self, self.runs[int(query["run"])], query)

    def others(self, query: Query) -> Packed:
        """The list of the items that are shown with the runs."""
        return packed({"others": self.beside()})

    def other(self, query: Query) -> Packed:
        """The data of one item that is shown with the runs."""
        shown = self._shown(query)
        return packed({"shown": shown.data}, shown.arrays)

    def names(self, query: Query) -> Packed:
        """The names in one item that is shown with the runs."""
        return packed({"names": list(self._shown(query).names)})

    def beside(self) -> list[dict[str, Any]]:
        """The kind and title of each item, and for a recording the time at which it was saved."""
        return [
            {"kind": one.kind, "title": one.title}
            | ({"saved": str(one.saved)} if isinstance(one, RecordingOnDisk) else {})
            for one in self.shown
        ]

    def _shown(self, query: Query) -> Shown:
        # The data of one item. Raises LookupError, and BadRecording for a damaged recording.
        found = dict(enumerate(self.shown))[int(query["other"])]
        return found.shown if isinstance(found, RecordingOnDisk) else found

    def circuit(self, query: Query) -> Packed:
        """The script and the style of circuits."""
        return packed({"script": script_of("circuit"), "style": text_of("circuit.css")})

    def brief(self) -> list[dict[str, Any]]:
        """For each run: its name, its number of steps, and its state."""
        return [brief(one) for one in self.runs.all()]

    def about(self, run: OpenRun, query: Query) -> Packed:
        """The names in a run with their kinds, its fields and parameters, and facts such as its folder."""
        with run.reading() as reader:
            kinds: dict[str, list[str]] = {}
            for name, kind in reader.rows():
                kinds.setdefault(name, []).append(kind)
            attempts = [one.facts for one in reader.attempts()]
            return packed(
                {
                    "names": list(kinds),
                    "kinds": list(kinds.values()),
                    "fields": reader.fields(),
                    "parameters": list(reader.parameters()),
                    "folder": str(run.folder),
                    "starts": len(attempts),
                    "every": max((int(one.get("every", 1)) for one in attempts), default=1),
                    "has_magnitudes": reader.has_exponents(),
                    "ranks": list(reader.ranks),
                }
            )

    def alerts(self, run: OpenRun, query: Query) -> Packed:
        """The alerts and gaps of a run."""
        with run.judging() as (reader, judge):
            report = judged(reader, judge=judge)
            found = [one.to_dict() for one in report]
            return packed(
                {
                    "alerts": found,
                    "notes": list(report.notes),
                    "gaps": [_gap(one) for one in gaps(reader) if isinstance(one, Gap)],
                }
            )

    def grid(self, run: OpenRun, query: Query) -> Packed:
        """Return the minimum and maximum of a field in each bin of steps, for the requested ``rows``.

        Without ``rows``, all names are included that have the field, or numbers that are not finite.

        ``rows`` is a list of names. A name that ends with a star includes all names below it.
        """
        rows = _rows(query)
        with run.reading() as reader:
            field, names = _field(reader, query), measured_names(reader)
            bins, first, last = _window(query)
            groups = None if rows is None else [_below(row, names) for row in rows]
            if first is None and last is None:
                found = run.level(reader, names, field).binned(bins)
            elif groups is None:
                found = binned(reader, names, field, bins, first, last)
            else:
                needed = sorted({at for group in groups for at in group})
                place = {at: number for number, at in enumerate(needed)}
                groups = [[place[at] for at in group] for group in groups]
                found = binned(reader, [names[at] for at in needed], field, bins, first, last)
        if rows is None or groups is None:
            there = _there(found)
            return self._grid(found, {"names": [names[at] for at in there]}, [[at] for at in there])
        return self._grid(found, {"names": rows}, groups)

    def _grid(self, found: Binned, head: dict[str, Any], groups: Sequence[Sequence[int]]) -> Packed:
        arrays = {
            "first": found.first,
            "last": found.last,
            "least": _grouped(found.least, groups, numpy.fmin, numpy.nan),
            "greatest": _grouped(found.greatest, groups, numpy.fmax, numpy.nan),
        }
        if (found.first == found.last).all():
            del arrays["least"]  # each bin is a single step, so its smallest and largest number are equal
        arrays |= {
            f"nonfinite {kind}": _grouped(one, groups, numpy.maximum, 0) for kind, one in found.nonfinite.items()
        }
        return packed(head, arrays, is_rounded=self.is_rounded)

    def series(self, run: OpenRun, query: Query) -> Packed:
        """A field of one name in bins of steps."""
        with run.reading() as reader:
            field = _field(reader, query)
            bins, first, last = _window(query)
            if first is None and last is None and field == LOGGED:
                names = reader.names_of(LOGGED)  # read together, so that each column is read once for all names
                found = one_of(run.level(reader, names, field).binned(bins), names.index(query["name"]))
            else:
                found = binned(reader, [query["name"]], field, bins, first, last)
            return self._grid(found, {"names": [query["name"]]}, [[0]])

    def step(self, run: OpenRun, query: Query) -> Packed:
        """All numbers at a step, of one name or of all names."""
        with run.reading() as reader:
            found = reader.at(int(query["step"]))
            if found is None:
                return packed({"step": None, "names": {}})
            info, attempt, rows = found
            if "name" in query:
                rows = {name: rows[name] for name in [query["name"]] if name in rows}
            about = {"time": float(info["time"]), "backwards": int(info["backwards"]), "skipped": int(info["skipped"])}
            return packed({"step": int(info["step"]), "attempt": attempt, **about, "names": rows})

    def magnitudes(self, run: OpenRun, query: Query) -> Packed:
        """The counts of a name's numbers by exponent, in steps with histograms: 400 of these steps at most."""
        with run.reading() as reader:
            found = reader.exponents(query["name"], query["kind"])
            exponents, counts = table_of([*found.values()])
            chosen = numpy.linspace(0, len(counts) - 1, min(len(counts), 400)).astype(int)
            steps = numpy.array([*found], numpy.int64)[chosen]
            return packed(
                {"exponents": exponents.tolist()},
                {"steps": steps, "counts": counts[chosen]},
                is_rounded=self.is_rounded,
            )

    def nonfinite(self, run: OpenRun, query: Query) -> Packed:
        """Stretches of NaN and Inf by step, from a given step on, and the step at which to continue."""
        with run.reading() as reader:
            if "from" in query:
                found, rest = stretches_of_nonfinite(reader, int(query["from"]), int(query.get("most", 2000)))
            else:
                found, rest = run.nonfinite(reader)
            rows = [[one.name, one.kind, one.first, one.last, one.count] for one in found]
            return packed({"stretches": rows, "rest": rest})

    def parting(self, run: OpenRun, query: Query) -> Packed:
        """The first steps at which a run differs from another: in any bit, and by more than a tenth."""
        other = self.runs[int(query["with"])]
        if other is run:
            raise ValueError("a run does not part from itself")
        # locks are always taken in the same order, otherwise two threads could wait for each other
        one, two = sorted((run, other), key=lambda each: each.number)
        with one.reading() as first, two.reading() as second:
            found = partings(first, second, (0.0, TENTH))
            said = [
                found and {"step": found.step, "rows": found.rows[:MOST_NAMES], "count": len(found.rows)}
                for found in found
            ]
            return packed({"exact": said[0], "tenth": said[1]})


WHOLE: Mapping[str, Callable[[Answers, Query], Packed]] = {
    "runs": lambda answers, _: packed({"runs": answers.brief()}),
    "others": Answers.others,
    "other": Answers.other,
    "names": Answers.names,
    "circuit": Answers.circuit,
}
OF_RUNS: Sequence[Callable[[Answers, OpenRun, Query], Packed]] = (
    Answers.about,
    Answers.alerts,
    Answers.grid,
    Answers.series,
    Answers.step,
    Answers.magnitudes,
    Answers.nonfinite,
    Answers.parting,
)
QUESTIONS = {one.__name__: one for one in OF_RUNS}


def brief(run: OpenRun) -> dict[str, Any]:
    """A summary of a run. ``state`` is "written", "ended", "died" or "damaged".

    The summary of a run that nobody writes is cached until its files change, since a folder may hold very many.
    """
    files = run.files()
    if files is None or files != run.said[0] or run.said[1]["state"] not in ("ended", "died"):
        run.said = files, _brief(run)
    return {**run.said[1], "now": time.time()}


def _brief(run: OpenRun) -> dict[str, Any]:
    found: dict[str, Any] = {"run": run.number, "label": run.label, "steps": 0, "first": 0, "last": -1, "time": 0.0}
    try:
        with run.reading() as reader:
            info, attempts = reader.info(), reader.attempts()
            if len(info):
                ends = {"first": int(info["step"][0]), "last": int(info["step"][-1]), "time": float(info["time"][-1])}
                found |= {"steps": len(info), **ends}
            has_ended = bool(attempts) and "ended" in attempts[-1].facts
            found["state"] = "written" if reader.is_written else "ended" if has_ended else "died"
            found["rows"], found["starts"] = len(reader.rows()), len(attempts)
    except (BackprobeError, OSError) as error:
        found |= {"state": "damaged", "error": str(error)}
    return found


def measured_names(reader: RunReader) -> list[str]:
    """The names that were measured, not only logged, in the order of the model."""
    return list(dict.fromkeys(name for name, kind in reader.rows() if kind != LOGGED))


def one_of(found: Binned, at: int) -> Binned:
    """The bins of a single name."""
    row = slice(at, at + 1)
    nonfinite = {kind: counts[row] for kind, counts in found.nonfinite.items()}
    return replace(
        found, names=found.names[row], least=found.least[row], greatest=found.greatest[row], nonfinite=nonfinite
    )


def _field(reader: RunReader, query: Query) -> str:
    # The requested field. Raises BadOption if the run does not have it.
    field = query["field"]
    known = reader.fields()
    if field not in known:
        raise BadOption("this run has no such field", asked=field[:80], found=", ".join(known), next="another field")
    return field


def _window(query: Query) -> tuple[int, int | None, int | None]:
    # The number of bins, the first step and the last. Raises ValueError.
    bins = int(query.get("bins", 300))
    if not 1 <= bins <= MOST_BINS:
        raise ValueError(f"from 1 to {MOST_BINS} bins")
    first, last = (int(query[one]) if one in query else None for one in ("from", "to"))
    return bins, first, last


def _rows(query: Query) -> list[str] | None:
    # The requested names, or None. Raises ValueError unless they are a list of strings.
    if "rows" not in query:
        return None
    rows = json.loads(query["rows"])
    if not isinstance(rows, list) or not all(isinstance(row, str) for row in rows):
        raise ValueError("rows are a list of names")
    return rows


def _there(found: Binned) -> list[int]:
    # The places of names that have a number in some bin, or NaN or Inf in any kind.
    has = ~numpy.isnan(found.greatest).all(axis=1)
    for counts in found.nonfinite.values():
        has |= counts.any(axis=1)
    return [int(at) for at in numpy.flatnonzero(has)]


def _below(row: str, names: Sequence[str]) -> list[int]:
    # The places of the names that a requested row includes.
    if not row.endswith("*"):
        return [at for at, name in enumerate(names) if name == row]
    inside = row[:-1]
    beginnings = tuple(inside + one for one in SEPARATORS)
    return [at for at, name in enumerate(names) if name == inside or name.startswith(beginnings)]


def _grouped(numbers: Any, groups: Sequence[Sequence[int]], join: Any, nothing: float) -> Any:
    # Merge the rows of all names that one requested row includes.
    if len(groups) == len(numbers) and all(list(one) == [at] for at, one in enumerate(groups)):
        return numbers  # unchanged, without a copy
    if all(len(one) == 1 for one in groups):
        return numbers[[one[0] for one in groups]] if len(groups) else numbers[:0]
    empty = numpy.full(numbers.shape[1:], nothing, numbers.dtype)
    return numpy.stack([join.reduce(numbers[list(one)], axis=0) if len(one) else empty for one in groups])


def _gap(gap: Gap) -> dict[str, Any]:
    # A gap in a short form, because it may have every step and name of a run.
    stretches: list[list[int]] = []
    for step in gap.steps:
        if stretches and step - stretches[-1][1] <= 1:
            stretches[-1][1] = step
        else:
            stretches.append([step, step])
    found = {one: asdict(gap)[one] for one in ("kind", "name", "headline", "kinds")}
    return {**found, "names": gap.names[:MOST_NAMES], "count": len(gap.names), "steps": stretches[:MOST_STRETCHES]}
