"""The runs of a sweep: one unchanged run, and one for each value, or part of a value, that is replaced."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy

from backprobe.backends.discover import is_model
from backprobe.backends.facts import Options
from backprobe.backends.protocol import Backend
from backprobe.backends.replay import Replay
from backprobe.errors import AmbiguousName, BadOption, NothingMatched, UnknownName
from backprobe.executors.state import GlobalState, SentCall
from backprobe.executors.tasks import Tasks
from backprobe.findings.phrasing import listed, quoted
from backprobe.probe.axes import from_the_first
from backprobe.probe.named_values import output_of
from backprobe.probe.one_number import one_number
from backprobe.probe.output import Weighing
from backprobe.probe.probe_class import Probe
from backprobe.probe.request import name_of, typed_as
from backprobe.record.brief import written
from backprobe.record.entries import Entry, GradStatus
from backprobe.record.names import strip
from backprobe.record.patterns import matcher
from backprobe.recording import Recording
from backprobe.show.progress import progress
from backprobe.sweep.asked import AskedSweep
from backprobe.sweep.result import Replaced, Sweep
from backprobe.tracing.replacing import Part, refuse_missing_value

OTHERS = (
    "in workers the output without replacing is {}, and {} here: they compute with other settings or devices, such as "
    "another number of threads"
)
NO_VALUE = (GradStatus.NOT_TENSOR, GradStatus.NOT_FLOAT)
Index = tuple[Any, ...]


@dataclass(frozen=True)
class SweepStep:
    """One run: the value that is replaced in it, or the replaced part.

    ``key`` is the value's full name, which is unambiguous, unlike a bare ``u``, which may also be a module. It has
    counts only if they are needed, because JAX does not count while tracing. ``places`` are the indices along the
    requested axes, and ``index`` selects that part of the value.
    """

    name: str
    key: str
    entry: Entry
    places: tuple[int, ...] = ()
    index: Index = ()

    @property
    def shown(self) -> str:
        """The value or part as ``of=`` would name it, such as ``h.0[:, 3]``."""
        places = [":" if isinstance(one, slice) else str(one) for one in self.index]
        return self.name + (f"[{', '.join(places)}]" if places else "")


class SweepWork(SentCall):
    """A sweep in the form that is sent to a worker process."""

    def begin(self) -> Callable[[int], tuple[list[Replaced], float]]:
        """Return a function for the run with a given number. Its result includes the output without replacements in
        this worker.
        """
        runs = ReplacedRuns(self.asked, self.backend(), self.args, self.kwargs)
        first, steps = runs.prepared()
        output = runs._output(first)
        return lambda number: (runs.replaced(steps[number]), output)


class ReplacedRuns:
    """Runs of one target with the same arguments."""

    def __init__(
        self, asked: AskedSweep[...], backend: Backend, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        self.asked, self.of, self.arrays, self.args, self.kwargs = asked, asked.of, backend.arrays, args, kwargs
        self.backend = backend
        self.in_function = not is_model(backend, asked.target)
        self.replay = Replay(backend, asked.target, args, kwargs)
        self.notes: list[str] = []
        self.done: list[Replaced] = []
        self.unbound: dict[str, str] = {}
        """The names of values that could not be replaced, by their keys."""

    def run(self) -> Sweep:
        """Make all runs, in the order in which the program computes the values."""
        first, steps = self.prepared()
        output = self._output(first)
        try:
            with progress(f"sweeping {name_of(self.asked.target)}", len(steps)) as advance:
                if self.asked.executor is not None:
                    self._elsewhere(steps, output, advance)
                else:
                    for step in steps:
                        advance(step.shown)
                        self.done += self.replaced(step)
        except KeyboardInterrupt as stop:
            vars(stop)["so_far"] = self._sweep(first, output)
            raise
        return self._sweep(first, output)

    def prepared(self) -> tuple[Recording, list[SweepStep]]:
        """The recording of the run without replacements, and all runs that are to be made with replacements."""
        first = self._recorded(self.asked.select, None, backward=self.asked.approximate)
        self.of = output_of(self.asked, first)
        values = self._replaceable(first)
        for value in values:
            self._refuse_unlike(value)
        of_values = {value.name: list(self._steps(value)) for value in values}
        empty = [name for name, own in of_values.items() if not own]
        if empty:
            self.notes.append(
                f"without an index along axis={written(self.asked.axis)}, and not replaced: {listed(empty)}"
            )
        return first, [step for own in of_values.values() for step in own]

    def _elsewhere(self, steps: Sequence[SweepStep], output: float, advance: Callable[[str], None]) -> None:
        # Make all runs on the executor. Each worker also makes the run without replacements, because it finds the list
        # of all runs from it.
        asked, kwargs = replace(self.asked, executor=None), dict(self.kwargs)
        work = SweepWork(asked, self.args, kwargs, GlobalState.of(self.backend))
        parts = {name_of(asked.target): asked.target, "args": self.args, "kwargs": kwargs, "replace": asked.replace}
        assert self.asked.executor is not None
        tasks = Tasks(self.asked.executor, work, [step.shown for step in steps], asked.call, parts)
        try:
            tasks.run(advance)
        finally:
            others = set()
            for at in sorted(tasks.done):
                done, own = tasks.done[at]
                self.done += done
                others |= {own} - {output}
                if not done and steps[at].key not in self.unbound:
                    self.unbound[steps[at].key] = steps[at].name
            if others and not (math.isnan(output) and all(map(math.isnan, others))):
                self.notes.append(OTHERS.format(listed(sorted(map(str, others))), output))

    def _sweep(self, first: Recording, output: float) -> Sweep:
        unbound = [f"not bound by a statement, and was not replaced: {listed(list(self.unbound.values()))}"]
        of = self.asked.of if isinstance(self.asked.of, str) else first.outputs[0].name
        return Sweep(
            name_of(self.asked.target),
            of,
            output,
            tuple(self.done),
            self.asked.axes,
            self.asked.approximate,
            (*self.notes, *unbound * bool(self.unbound)),
        )

    def _recorded(self, select: Any, replaced: Mapping[str, Any] | None, *, backward: bool = False) -> Recording:
        # The recording of one run of the program. All runs begin in the same state.
        weigh = one_number(self.arrays, self.asked.of, "a sweep", "an effect is a change of that number")
        with self.replay.run():
            return Probe(
                self.asked.target,
                select,
                of=self.of,
                cotangent=Weighing(weigh, is_used=backward),
                replace=replaced,
                options=Options(backward=backward),
                backend=self.asked.backend,
            )(*self.args, **self.kwargs)

    def _output(self, recording: Recording) -> float:
        return float(self.arrays.numbers(recording.outputs[0].value).item())

    # Methods that select values.

    def _replaceable(self, recording: Recording) -> list[SweepStep]:
        # The values that match the patterns. Each value is listed once, by the first matching name. Raises
        # NothingMatched.
        record, entries = recording.record, recording.record.entries
        selects = matcher(self.asked.select, in_function=self.in_function)
        found: dict[int, str] = {}
        for full, at in record.names.items():
            if selects(full) and at not in record.outputs:
                found.setdefault(at, full)
        names = {at: record.printed[full] for at, full in found.items()}
        tensors = [
            SweepStep(names[at], strip(full) if strip(names[at]) == names[at] else full, entries[at])
            for at, full in found.items()
            if _is_floating(entries[at])
        ]
        absent = [name for at, name in names.items() if entries[at].status is GradStatus.NOT_EXECUTED]
        if absent:
            self.notes.append(f"did not run, and was not replaced: {listed(absent)}")
        if not tensors:
            raise NothingMatched(
                f"{written(self.asked.select)} matches nothing in {name_of(self.asked.target)} that can be replaced",
                asked=self.asked.call,
                found=quoted(list(names.values())) if names else "the output alone",
                why="a sweep replaces floating-point tensors, and leaves the output as it is",
                next=f"bp.names({typed_as(self.asked.target)}), for every name",
            )
        return tensors

    def _refuse_unlike(self, value: SweepStep) -> None:
        # Raise BadOption if the other recording lacks the value, or has it with another shape or dtype. This is checked
        # before anything is replaced.
        other = self.asked.replace
        if not isinstance(other, Recording):
            return
        try:
            given = other[value.key]
        except (UnknownName, AmbiguousName) as error:
            again = f"clean = bp.probe({typed_as(self.asked.target)}, {written(self.asked.select)}, ...)(...)"
            refuse_missing_value(repr(value.name), self.asked.call, error, again)
        for part in ("shape", "dtype"):
            own, its = getattr(value.entry, part), getattr(given, part)
            if own != its:
                raise BadOption(
                    f"{value.name!r} has another {part} in the other recording",
                    asked=self.asked.call,
                    found=f"{part} {its} in the place of {own}",
                    why="the program goes on with it",
                    next="arguments of the same shapes and dtypes for both runs",
                )

    def _steps(self, value: SweepStep) -> Iterator[SweepStep]:
        # The runs for one value. Raises BadOption.
        entry = value.entry
        # the leading axes are removed, which a value has if it is computed several times at once
        shape = (entry.shape or ())[len(entry.axes) :]
        why = "each index along an axis has a run of its own"
        axes = from_the_first(self.asked.axes, shape, value.name, self.asked.axis, why)
        for places in itertools.product(*(range(shape[axis]) for axis in axes)):
            chosen = dict(zip(axes, places, strict=True))
            index = tuple(chosen.get(axis, slice(None)) for axis in range(max(axes, default=-1) + 1))
            yield replace(value, places=places, index=index)

    # Methods for one run.

    def replaced(self, step: SweepStep) -> list[Replaced]:
        """Make the run that replaces this value. Empty if no statement binds the value, as after a write in place."""
        what = Part(self.asked.replace, step.index) if step.index else self.asked.replace
        if step.key in self.unbound:
            return []
        try:
            recording = self._recorded(step.key, {step.key: what})
        except NothingMatched:
            self.unbound[step.key] = step.name
            return []
        approximation = self._approximation(step.entry, recording) if self.asked.approximate else None
        return [Replaced(step.name, step.places, step.shown, self._output(recording), approximation)]

    def _approximation(self, entry: Entry, recording: Recording) -> float | None:
        # The sum of gradient × change over the value's elements: 0 for a value that is not connected to the output, and
        # None if there is no gradient for another reason.
        if entry.status is GradStatus.NOT_CONNECTED:
            return 0.0
        if entry.status is not GradStatus.OK:
            return None
        changed = next(one for one in recording.values() if one.replaced)
        gradient, new, old = map(self.arrays.numbers, (entry.grad, changed.value, changed.original))
        moved = new != old  # unchanged elements contribute nothing, but Inf or NaN in them would give NaN
        with numpy.errstate(all="ignore"):  # NaN and Inf are part of the result, so NumPy need not warn of them
            return float((numpy.conj(gradient[moved]) * (new[moved] - old[moved])).sum().real)


def _is_floating(entry: Entry) -> bool:
    return entry.shape is not None and entry.status not in NO_VALUE
