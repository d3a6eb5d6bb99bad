"""The result of an attribution: a number for each value and each edge, and the outputs of both runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from backprobe.attribute import text
from backprobe.attribute.drawing import drawable
from backprobe.attribute.exact_edges import exact_edges
from backprobe.draw import Drawing, draw
from backprobe.errors import NoGradient, NotSaved
from backprobe.findings.finding import plain
from backprobe.findings.phrasing import plural
from backprobe.probe.request import spelled_as
from backprobe.record.entries import Record
from backprobe.record.options import Option
from backprobe.recording import Recording, entry_of
from backprobe.show.drawable import Drawable
from backprobe.show.number_table import Cells, NumberTable
from backprobe.sweep import Sweep, sweep
from backprobe.view.shown import Shown

FEW, DRAWN = 10, 20  # how many values and edges are printed, and how many edges are drawn


@dataclass(frozen=True, repr=False, eq=False)
class Attribution(NumberTable):
    """How much of the difference between two runs is attributed to each value, and to each edge between two.

    ``result[name]`` is the attribution of one value. ``numbers`` maps each name to its attribution, in the order in
    which the program computes the values. ``edges`` maps pairs of names to the attributions of edges. ``clean`` and
    ``corrupt`` are the outputs of the two runs. With ``axis=``, ``parts`` maps each name to an array of attributions,
    one for each index along these axes. Printing the result shows a table.

    >>> import torch, backprobe as bp
    >>> def f(x, y):
    ...     u = 3 * x
    ...     v = u + 2 * y
    ...     return v * v
    >>> print(bp.attribute(f, (1.0, 1.0), (0.5, 0.0), ["x", "y", "u", "v"], steps=2))
    return of f: 25 in the clean run, 2.25 in the corrupt run, a change of 22.75
    name        attribution  share
    v                 22.75      1
    y                    13  0.571
    x                  9.75  0.429
    u                  9.75  0.429
    edge        attribution  share
    v → return        22.75      1
    y → v                13  0.571
    x → u              9.75  0.429
    u → v              9.75  0.429
    the first values, x, y, sum to 22.75, and the output changes by 22.75
    """

    target: str
    of: str
    clean: float
    corrupt: float
    numbers: Mapping[str, float]
    edges: Mapping[tuple[str, str], float]
    parts: Mapping[str, Any]
    axes: tuple[int, ...]
    first: tuple[str, ...]
    steps: int | None
    notes: tuple[str, ...]
    record: Record = field(repr=False)
    missing: Mapping[str, str] = field(repr=False)
    runs: Any = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to copy or pickle.

        It has the numbers, but not the program, which cannot be run again from a copy.
        """
        return {**vars(self), "runs": None}

    # Methods for looking up values by name.

    def __getitem__(self, name: str) -> float:
        """The attribution of one value.

        Raises UnknownName, AmbiguousName, and NoGradient for a value without an attribution, such as the output.
        """
        with spelled_as(r"print\(rec\)", "print(result)"), spelled_as(r"bp\.probe\(\.\.\.", "bp.attribute(..."):
            entry = entry_of(Recording(self.record), name, "result[{}]")
        if entry.name not in self.numbers:
            raise NoGradient(
                f"{entry.name!r} has no attribution",
                asked=f"result[{name!r}]",
                found=self.missing.get(entry.name, "the output itself"),
                why="an attribution is the change of a value times its gradient",
                next="result.numbers, for all",
            )
        return self.numbers[entry.name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.numbers)

    def __len__(self) -> int:
        return len(self.numbers)

    def __contains__(self, name: object) -> bool:
        return name in self.numbers

    def top(self, k: int = FEW) -> dict[str, float]:
        """The values with the ``k`` largest absolute attributions, the largest first. Raises BadOption."""
        return _largest(self.numbers, k)

    def top_edges(self, k: int = FEW) -> dict[tuple[str, str], float]:
        """The edges with the ``k`` largest absolute attributions, the largest first. Raises BadOption."""
        return _largest(self.edges, k)

    # comparison with the real change of the output

    @property
    def change(self) -> float:
        """The output of the clean run minus the output of the corrupt run."""
        return self.clean - self.corrupt

    @property
    def sum(self) -> float:
        """The sum of attributions over ``first``: the selected values that depend on no other selected value.

        If the runs differ only through these values, the sum is the change that the gradients predict, to be compared
        with ``change``. With more ``steps`` it converges to ``change``, up to rounding.
        """
        return math.fsum(self.numbers[name] for name in self.first)

    @property
    def error(self) -> float:
        """The difference between ``sum`` and ``change``, relative to ``change``; NaN if ``change`` is 0."""
        return (self.sum - self.change) / self.change if self.change else math.nan

    def exact(self, k: int = FEW) -> Sweep:
        """Measure how much the output changes if each of the ``k`` largest values is replaced alone: one run for each.

        In the corrupt run, one value at a time is replaced by its value from the clean run, as in ``bp.sweep(model,
        names, replace=clean)(*corrupt)``. The ``approximations`` of the sweep are the attributions, and its
        ``agreement`` is their correlation with the measured changes.

        >>> import torch, backprobe as bp
        >>> def f(x):
        ...     u = x * 2
        ...     return (u * u).sum()
        >>> result = bp.attribute(f, torch.tensor([2.0]), torch.tensor([1.0]), ["x", "u"])
        >>> print(result.exact())
        return of f is 4; with one value replaced at a time:
        name  output  effect  gradient × change
        x         16      12                  8
        u         16      12                  8

        Raises BadOption, and NotSaved for a result that was copied or loaded.
        """
        largest = self.top(k)
        self._refuse_copied(f"exact({k})")
        asked = self.runs.asked
        keys = [key for name, key in self.runs.keys.items() if name in largest]
        recorded = self.runs.recorded(asked.clean_args, keys)
        args, kwargs = asked.corrupt_args
        swept = sweep(asked.target, keys, of=self.runs.of, replace=recorded, backend=asked.backend)(*args, **kwargs)
        runs = tuple([replace(run, approximation=self.numbers.get(run.name)) for run in swept.runs])
        return replace(swept, runs=runs, is_approximate=True)

    def exact_edges(self, k: int = FEW) -> Sweep:
        """Measure the change of the output along each of the ``k`` largest edges alone: at most two runs for each.

        In the first run, the source of an edge has its value from the clean run, and the other selected values keep
        their values of the corrupt run. The second run replaces only the target of the edge, by its value from the
        first run. This is known as path patching. The ``approximations`` of the sweep are the attributions, and its
        ``agreement`` is their correlation with the measured changes.

        >>> import torch, backprobe as bp
        >>> def f(x):
        ...     u = x * x
        ...     v = u + 2 * x
        ...     return (u * v).sum()
        >>> result = bp.attribute(f, torch.tensor([2.0]), torch.tensor([1.0]), ["x", "u", "v"])
        >>> result.exact_edges(2).effects, result.top_edges(2)
        ({'u → return': 9.0, 'x → u': 21.0}, {('u', 'return'): 9.0, ('x', 'u'): 8.0})

        Raises BadOption, and NotSaved for a result that was copied or loaded.
        """
        largest = self.top_edges(k)
        self._refuse_copied(f"exact_edges({k})")
        return exact_edges(self.runs, self.of, self.corrupt, largest)

    def _refuse_copied(self, asked: str) -> None:
        # Raise NotSaved if the result has no program to run again, because it was copied or loaded.
        if self.runs is None:
            raise NotSaved(
                "this attribution was copied without its program",
                asked=f"result.{asked}",
                found="numbers alone",
                why="each value is replaced in a run of its own",
                next=f"bp.attribute(...).{asked} where the model is, or bp.sweep(model, names, replace=clean)",
            )

    # conversions to plain data, a circuit, a picture and text

    def to_dict(self) -> dict[str, Any]:
        """The numbers as plain data for ``json.dumps``; NaN and Inf become strings, such as ``"NaN"``."""
        edges = [
            {"source": source, "target": target, "attribution": number}
            for (source, target), number in self.edges.items()
        ]
        known = {
            "target": self.target,
            "of": self.of,
            "clean": self.clean,
            "corrupt": self.corrupt,
            "change": self.change,
            "sum": self.sum,
            "steps": self.steps,
            "first": self.first,
            "attributions": self.numbers,
            "edges": edges,
            "notes": self.notes,
        }
        return {name: plain(one) for name, one in known.items()}

    def to_dataframe(self, *, edges: bool = False) -> Any:
        """A pandas data frame with a row for each value, or for each edge; of Polars if only Polars is installed.

        The columns are name and attribution, or for edges source, target and attribution. Raises NotInstalled.
        """
        from backprobe.show.frames import frame

        columns: dict[str, Any] = {"name": [*self.numbers], "attribution": [*self.numbers.values()]}
        if edges:
            sources, targets = ([way[at] for way in self.edges] for at in (0, 1))
            columns = {"source": sources, "target": targets, "attribution": [*self.edges.values()]}
        return frame(lambda: columns, "result.to_dataframe()")

    @property
    def drawable(self) -> Drawable:
        """The data that ``bp.draw(result)`` draws."""
        return drawable(self, self.top_edges(DRAWN))

    def draw(self, path: Any = None, *, k: int = DRAWN, **options: Any) -> Drawing:
        """Draw the circuit of the ``k`` largest edges; other options are those of ``bp.draw``.

        Raises BadOption if there are no edges.
        """
        return draw(_Top(drawable(self, self.top_edges(k))), path, **options)

    def _viewed(self) -> Shown:
        # The content that bp.view shows. Raises BadOption if there are no edges.
        return self.draw()._viewed()

    def plot(self, k: int = DRAWN) -> Any:
        """The ``k`` largest values and edges as a ``matplotlib`` figure of bars; with ``axis=`` a heat map of values.

        ``result.plot().savefig("attribution.png")`` saves it. Raises NotInstalled and BadOption.
        """
        from backprobe.attribute.plot import picture  # imported late, because it imports NumPy

        return picture(self, self.top(k), self.top_edges(k))

    def __repr__(self) -> str:
        found = f"{plural(len(self.numbers), 'value')} and {plural(len(self.edges), 'edge')}"
        return f"<backprobe.Attribution of {found}: {self.of} of {self.target}>"

    def _parts(self) -> tuple[str, Cells, Sequence[Cells], Sequence[str]]:
        titles, *rows = text.rows(self, FEW)
        return text.heading(self), titles, rows, text.footer(self, FEW)


@dataclass(frozen=True)
class _Top:
    # A wrapper that lets ``bp.draw`` draw a chosen number of edges.
    drawable: Drawable


def _largest(numbers: Mapping[Any, float], k: int) -> dict[Any, float]:
    Option("k", int, 1, "10").check(k)
    ranked = sorted(numbers.items(), key=lambda item: (not math.isnan(item[1]), -abs(item[1])))
    return dict(ranked[:k])
