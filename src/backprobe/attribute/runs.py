"""The runs of an attribution: the clean one and the corrupt one forward, and the corrupt one backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from backprobe.attribute.asked import Arguments, Asked
from backprobe.attribute.result import Attribution
from backprobe.attribute.sums import Sums
from backprobe.attribute.values import Value, compared, first_of, selected
from backprobe.backends.discover import is_model
from backprobe.backends.facts import Options
from backprobe.backends.protocol import Backend
from backprobe.backends.replay import Replay
from backprobe.errors import NoGradient
from backprobe.findings.phrasing import listed
from backprobe.probe.one_number import one_number
from backprobe.probe.output import Weighing
from backprobe.probe.probe_class import Probe
from backprobe.probe.request import name_of
from backprobe.record.entries import GradStatus
from backprobe.recording import Recording
from backprobe.show.progress import progress


class Runs:
    """The runs of one target with the arguments of both sides."""

    def __init__(self, asked: Asked, backend: Backend) -> None:
        self.asked, self.arrays, self.of = asked, backend.arrays, asked.of
        self.in_function = not is_model(backend, asked.target)
        both = [one for args, named in (asked.clean_args, asked.corrupt_args) for one in (*args, *named.values())]
        self.replay = Replay(backend, asked.target, both)
        self.notes: list[str] = []
        self.keys: dict[str, str] = {}
        """The names by which the values are replaced, by their printed names."""

    def run(self) -> Attribution:
        """All of them. Raises BadOption, NothingMatched, NoGradient and BadOutput."""
        corrupt = self.recorded(self.asked.corrupt_args, self.asked.select)
        self.of = self._of(corrupt)
        clean = self.recorded(self.asked.clean_args, self.asked.select)
        values = self._values(corrupt, clean, self.asked.select)
        self.keys = {value.name: value.key for value in values}
        record, outputs = corrupt.record, (self._output(clean), self._output(corrupt))
        sums = Sums(self.arrays, self.asked.axis, self.asked.axes)
        first = first_of(values, record)
        whole = sums.changes(values, clean, corrupt) if self.asked.chunk is None else None
        del clean, corrupt
        moved = self._moved(first, whole) if self.asked.steps else {}
        missing = self._differentiated(values, whole, moved, sums)
        first = [value for value in first if value.name in sums.nodes]
        of = self.asked.of if isinstance(self.asked.of, str) else record.entries[record.outputs[0]].name
        return Attribution.of_sums(
            self, sums, name_of(self.asked.target), of, outputs, [value.name for value in first], record, missing
        )

    def _values(self, corrupt: Recording, clean: Recording, select: Any) -> list[Value]:
        # The values that both runs have. Raises NothingMatched and BadOption.
        values, partners = (selected(self.asked, self.in_function, one, select) for one in (corrupt, clean))
        compared(self.asked, values, partners)
        return values

    def _of(self, first: Recording) -> Any:
        # The output by its path, where it was the only one that depends on what is differentiated.
        path = first.outputs[0].name.partition("return.")[2]
        return path if self.asked.of is None and path else self.asked.of

    # one run

    def recorded(
        self, given: Arguments, select: Any, *, replaced: Mapping[str, Any] | None = None, backward: bool = False,
        flow: Callable[[str, Any], Any] | None = None,
    ) -> Recording:  # fmt: skip
        """One run of the program, which begins like each of them."""
        options = Options(backward=backward, partials=flow is not None, flow=flow)
        weigh = one_number(self.arrays, self.asked.of, "an attribution", "an attribution is a change of that number")
        with self.replay.run():
            return Probe(
                self.asked.target, select, of=self.of, cotangent=Weighing(weigh, is_used=backward),
                replace=replaced or None, options=options, backend=self.asked.backend,
            )(*given[0], **given[1])  # fmt: skip

    def _output(self, recording: Recording) -> float:
        return float(self.arrays.numbers(recording.outputs[0].value).item())

    # the way from the corrupt run to the clean one

    def _moved(self, first: Sequence[Value], changes: Mapping[str, Any] | None) -> dict[str, Any]:
        # The values that move, by the names that they are replaced by, as they are in the clean run.
        select = self.asked.along
        if select is None:
            moving = [value for value in first if changes is None or changes[value.name].any()]
            select = [value.key for value in moving or first]
        clean = self.recorded(self.asked.clean_args, select)
        corrupt = self.recorded(self.asked.corrupt_args, select)
        return {value.key: clean[value.key].value for value in self._values(corrupt, clean, select)}

    def _points(self) -> Iterator[float]:
        # The middles of equal parts of it; where there are none, the corrupt run itself.
        steps = self.asked.steps
        return iter([0.0]) if steps is None else ((step + 0.5) / steps for step in range(steps))

    def _differentiated(
        self, values: Sequence[Value], whole: Mapping[str, Any] | None, moved: Mapping[str, Any], sums: Sums
    ) -> dict[str, str]:
        # Run backward at each point of the way, for each chunk of the values; the reasons why some have no gradient.
        size, steps = self.asked.chunk or len(values), self.asked.steps or 1
        chunks = [values[at : at + size] for at in range(0, len(values), size)]
        missing: dict[str, str] = {}
        with progress(f"attributing {name_of(self.asked.target)}", len(chunks) * steps) as advance:
            for chunk in chunks:
                changes = self._changes(chunk, sums) if whole is None else whole
                for point in self._points():
                    advance(chunk[0].name)
                    missing |= self._added(chunk, changes, self._replacements(moved, point), sums, 1 / steps)
        return self._noted(missing)

    def _changes(self, chunk: Sequence[Value], sums: Sums) -> Mapping[str, Any]:
        keys = [value.key for value in chunk]
        clean, corrupt = (self.recorded(given, keys) for given in (self.asked.clean_args, self.asked.corrupt_args))
        return sums.changes(chunk, clean, corrupt)

    def _replacements(self, moved: Mapping[str, Any], point: float) -> dict[str, Any]:
        return {key: _Towards(clean, point) for key, clean in moved.items()}

    def _added(
        self, chunk: Sequence[Value], changes: Mapping[str, Any], replaced: Mapping[str, Any], sums: Sums, weight: float
    ) -> dict[str, str]:
        # Add what one run brings to these values, and to the edges from them; all are recorded where edges are asked
        # for, since the direct way from one to another leads through no third.
        with_edges = self.asked.edges
        select = self.asked.select if with_edges else [value.key for value in chunk]
        recording = self.recorded(
            self.asked.corrupt_args, select, replaced=replaced, backward=True,
            flow=sums.flow(changes) if with_edges else None,
        )  # fmt: skip
        if with_edges:
            sums.add_edges(recording.record, weight)
        missing = {}
        for value in chunk:
            entry = recording[value.key]
            if entry.status is GradStatus.OK:
                sums.add(value.name, changes[value.name], entry.grad, weight)
            elif value.is_named:
                raise self._no_gradient(value.name, entry.no_gradient())
            else:
                missing[value.name] = f"{entry.status}: {entry.reason}"
        return missing

    def _no_gradient(self, name: str, error: NoGradient) -> NoGradient:
        call = f"bp.probe({name_of(self.asked.target)})"
        return NoGradient(
            f"{name!r} has no gradient in the corrupt run, and so no attribution", asked=self.asked.call,
            found=error.found, why=error.why, next=f"bp.explain({call}(...), {name!r}), or a selection without it",
        )  # fmt: skip

    def _noted(self, missing: dict[str, str]) -> dict[str, str]:
        if missing:
            self.notes.append(f"without a gradient, and left out: {listed([*missing])}")
        return missing


class _Towards:
    # What takes the place of a value at a point of its way to that of the clean run.
    def __init__(self, clean: Any, point: float) -> None:
        self.clean, self.point = clean, point

    def __call__(self, value: Any) -> Any:
        return value + self.point * (self.clean - value)
