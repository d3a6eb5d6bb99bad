"""The runs of an attribution: the clean and the corrupt run forward, then backward runs from the corrupt side."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy

from backprobe.attribute.asked import Arguments, AskedAttribution
from backprobe.attribute.result import Attribution
from backprobe.attribute.sums import Sums
from backprobe.attribute.values import AttributedValue, compared, first_of, selected, without_values
from backprobe.backends.discover import is_model
from backprobe.backends.facts import Options
from backprobe.backends.protocol import Backend
from backprobe.backends.replay import Replay
from backprobe.errors import NoGradient
from backprobe.executors.state import GlobalState
from backprobe.executors.tasks import Tasks
from backprobe.findings.phrasing import listed
from backprobe.probe.named_values import output_of
from backprobe.probe.one_number import one_number
from backprobe.probe.output import Weighing
from backprobe.probe.probe_class import Probe
from backprobe.probe.request import name_of, typed_as
from backprobe.record.entries import GradStatus, Record
from backprobe.recording import Recording
from backprobe.show.progress import progress


@dataclass(frozen=True)
class RunSide:
    """One forward run: its values without their tensors, their numbers as arrays, and its output."""

    values: Sequence[AttributedValue]
    numbers: Mapping[str, Any]
    output: float


@dataclass(frozen=True)
class Prepared:
    """The results of both forward runs, and the backward runs that remain to be done, as ``tasks``.

    Each task has the values of one chunk, and the point between the two runs at which their gradients are computed.
    """

    record: Record
    outputs: tuple[float, float]
    first: Sequence[AttributedValue]
    whole: Mapping[str, Any] | None
    """For each name, the clean value minus the corrupt value; None if the values are processed in chunks."""

    moved: Mapping[str, Any]
    tasks: Sequence[tuple[Sequence[AttributedValue], float]]


@dataclass(frozen=True)
class Found:
    """The result of one backward run: attributions of values and of edges, and why some values have no gradient."""

    nodes: Mapping[str, Any]
    edges: Mapping[tuple[str, str], float]
    missing: Mapping[str, str]


@dataclass(frozen=True)
class AttributionWork:
    """The data of an attribution that is sent to a worker process."""

    asked: AskedAttribution
    state: GlobalState

    def begin(self) -> Callable[[int], Found]:
        """Prepare the runs, and return a function that does the backward run with a given number."""
        backend = self.asked._backend_of()
        self.state.restore(backend)
        runs = AttributionRuns(self.asked, backend)
        prepared = runs.prepared()
        return lambda number: runs.found(prepared, number)


class AttributionRuns:
    """All runs of one target, with the clean and with the corrupt arguments."""

    def __init__(self, asked: AskedAttribution, backend: Backend) -> None:
        self.asked, self.backend, self.arrays, self.of = asked, backend, backend.arrays, asked.of
        self.last: tuple[tuple[str, ...], Mapping[str, Any]] | None = None
        self.in_function = not is_model(backend, asked.target)
        both = [one for args, named in (asked.clean_args, asked.corrupt_args) for one in (*args, *named.values())]
        self.replay = Replay(backend, asked.target, both)
        self.sums = Sums(self.arrays, asked.axis, asked.axes)
        self.notes: list[str] = []
        self.keys: dict[str, str] = {}
        """Maps the printed name of each value to the name under which a run can replace the value."""

    def prepared(self) -> Prepared:
        """Do the forward runs. Raises BadOption, NothingMatched and BadOutput."""
        recording = self.recorded(self.asked.corrupt_args, self.asked.select)
        self.of = output_of(self.asked, recording)
        corrupt, record = self._side(recording, self.asked.select), without_values(recording.record)
        del recording  # frees its graph before the clean run
        clean = self._side(self.recorded(self.asked.clean_args, self.asked.select), self.asked.select)
        self._note_nonfinite(clean.output, "clean")
        self._note_nonfinite(corrupt.output, "corrupt")
        compared(self.asked, corrupt.values, clean.values)
        values, outputs = corrupt.values, (clean.output, corrupt.output)
        self.keys = {value.name: value.key for value in values}
        whole = _changes(clean, corrupt) if self.asked.chunk is None else None
        del clean, corrupt
        first = first_of(values, record)
        moved = self._moved(first, whole) if self.asked.steps else {}
        size = self.asked.chunk or len(values)
        chunks = [values[at : at + size] for at in range(0, len(values), size)]
        return Prepared(
            record, outputs, first, whole, moved, [(chunk, at) for chunk in chunks for at in self._points()]
        )

    def run(self) -> Attribution:
        """Do all runs, and return the result. Raises BadOption, NothingMatched, NoGradient and BadOutput."""
        prepared = self.prepared()
        record, first = prepared.record, prepared.first
        missing = self._differentiated(prepared)
        of = self.asked.of if isinstance(self.asked.of, str) else record.entries[record.outputs[0]].name
        nodes, axes = self.sums.nodes, self.asked.axes
        return Attribution(
            name_of(self.asked.target),
            of,
            *prepared.outputs,
            {name: float(number.sum()) for name, number in nodes.items()},
            self.sums.edges,
            nodes if axes else {},
            axes,
            tuple([one.name for one in first if one.name in nodes]),
            self.asked.steps,
            tuple(self.notes),
            record,
            missing,
            self,
        )

    # Methods for a single run.

    def recorded(
        self,
        given: Arguments,
        select: Any,
        *,
        replaced: Mapping[str, Any] | None = None,
        backward: bool = False,
        flow: Callable[[str, Any], Any] | None = None,
    ) -> Recording:
        """Run the program once, from the same initial state as every other run, and return its recording."""
        options = Options(backward=backward, partials=flow is not None, flow=flow)
        weigh = one_number(self.arrays, self.asked.of, "an attribution", "an attribution is a change of that number")
        with self.replay.run():
            return Probe(
                self.asked.target,
                select,
                of=self.of,
                cotangent=Weighing(weigh, is_used=backward),
                replace=replaced or None,
                options=options,
                backend=self.asked.backend,
            )(*given[0], **given[1])

    def _side(self, recording: Recording, select: Any) -> RunSide:
        # Select the values of one run, and read their numbers. Raises NothingMatched.
        values = selected(self.asked, self.in_function, recording, select)
        numbers = {value.full: self.sums.numbers(value.entry.value) for value in values}
        output = float(self.arrays.numbers(recording.outputs[0].value).item())
        return RunSide([value.without_tensors() for value in values], numbers, output)

    def _note_nonfinite(self, output: float, side: str) -> None:
        if not math.isfinite(output):
            call = f"bp.explain(bp.probe({typed_as(self.asked.target)}, nonfinite=True)(*{side}))"
            self.notes.append(
                f"the output of the {side} run is {output}, so no attribution adds up to its change: {call} says where "
                "that begins"
            )

    # points between the corrupt run and the clean run

    def _moved(self, first: Sequence[AttributedValue], changes: Mapping[str, Any] | None) -> dict[str, Any]:
        # The clean values that are interpolated, by the names used to replace them.
        select = self.asked.along
        if select is None:
            moving = [value for value in first if changes is None or changes[value.name].any()]
            select = [value.key for value in moving or first]
        corrupt = self._side(self.recorded(self.asked.corrupt_args, select), select)
        recording = self.recorded(self.asked.clean_args, select)
        values = selected(self.asked, self.in_function, recording, select)
        compared(self.asked, corrupt.values, values)
        return {value.key: value.entry.value for value in values}

    def _points(self) -> list[float]:
        # The midpoints of ``steps`` equal parts between the runs; without ``steps``, only the corrupt run itself.
        steps = self.asked.steps
        return [0.0] if steps is None else [(step + 0.5) / steps for step in range(steps)]

    def _differentiated(self, prepared: Prepared) -> dict[str, str]:
        # Do a backward run for each chunk of values at each point. Returns why some values have no gradient.
        missing: dict[str, str] = {}
        tasks = prepared.tasks
        with progress(f"attributing {name_of(self.asked.target)}", len(tasks)) as advance:
            for found in self._elsewhere(tasks, advance) if self.asked.executor else self._here(prepared, advance):
                self.sums.add_sums(found.nodes, found.edges)
                missing |= found.missing
        if missing:
            self.notes.append(f"without a gradient, and left out: {listed([*missing])}")
        return missing

    def _here(self, prepared: Prepared, advance: Callable[[str], None]) -> Iterator[Found]:
        for number, (chunk, _) in enumerate(prepared.tasks):
            advance(chunk[0].name)
            yield self.found(prepared, number)

    def _elsewhere(
        self, tasks: Sequence[tuple[Sequence[AttributedValue], float]], advance: Callable[[str], None]
    ) -> Sequence[Found]:
        # Do the backward runs on the executor. Each worker also does the forward runs, so that a task is just a number.
        asked = replace(self.asked, executor=None)
        work = AttributionWork(asked, GlobalState.of(self.backend))
        parts = {name_of(asked.target): asked.target, "clean": asked.clean, "corrupt": asked.corrupt, "of": asked.of}
        names = [f"{chunk[0].name}, point {point:.3g}" for chunk, point in tasks]
        return Tasks(self.asked.executor, work, names, asked.call, parts).run(advance)

    def _changes_of(self, chunk: Sequence[AttributedValue]) -> Mapping[str, Any]:
        # The differences of the values in a chunk. The last chunk is cached, because each point uses it again.
        keys = tuple(value.key for value in chunk)
        if self.last is None or self.last[0] != keys:
            corrupt = self._side(self.recorded(self.asked.corrupt_args, keys), keys)
            clean = self._side(self.recorded(self.asked.clean_args, keys), keys)
            self.last = keys, _changes(clean, corrupt)
        return self.last[1]

    def found(self, prepared: Prepared, number: int) -> Found:
        """Do one backward run, and return attributions for a chunk of values and for their outgoing edges.

        With edges, the run records all selected values, because an edge joins two values only if no third lies between.
        """
        chunk, point = prepared.tasks[number]
        changes = self._changes_of(chunk) if prepared.whole is None else prepared.whole
        weight, with_edges = 1 / len(self._points()), self.asked.edges
        sums = Sums(self.arrays, self.asked.axis, self.asked.axes)
        recording = self.recorded(
            self.asked.corrupt_args,
            self.asked.select if with_edges else [value.key for value in chunk],
            replaced={key: _moved_to(clean, point) for key, clean in prepared.moved.items()},
            backward=True,
            flow=sums.flow(changes) if with_edges else None,
        )
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
        return Found(sums.nodes, sums.edges, missing)

    def _no_gradient(self, name: str, error: NoGradient) -> NoGradient:
        call = f"bp.probe({typed_as(self.asked.target)})"
        return NoGradient(
            f"{name!r} has no gradient in the corrupt run, and so no attribution",
            asked=self.asked.call,
            found=error.found,
            why=error.why,
            next=f"bp.explain({call}(...), {name!r}), or a selection without it",
        )


def _moved_to(clean: Any, point: float) -> Callable[[Any], Any]:
    # A replacement function that moves a value a given fraction of the way to its value of the clean run.
    return lambda value: value + point * (clean - value)


def _changes(clean: RunSide, corrupt: RunSide) -> dict[str, Any]:
    # For each name, the value in the clean run minus the value in the corrupt run.
    with numpy.errstate(all="ignore"):  # NaN and Inf are part of the result, so NumPy must not warn
        return {one.name: clean.numbers[one.full] - corrupt.numbers[one.full] for one in corrupt.values}
