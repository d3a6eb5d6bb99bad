"""Runs the program on rows of numbers, with and without a probe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy

from backprobe.backends.facts import Options
from backprobe.backends.protocol import Backend
from backprobe.backends.replay import Replay
from backprobe.backends.trials import Trials
from backprobe.errors import BackprobeError, BadOutput, NothingToDifferentiate
from backprobe.explain import explain
from backprobe.findings.report import Report
from backprobe.probe.output import SUMMED, Weighing
from backprobe.probe.probe_class import Probe
from backprobe.provoke.inputs import Inputs
from backprobe.provoke.risks import Risk, nearest_to
from backprobe.recording import Recording

Array = Any
Broken = Literal["", "result", "gradient"]
"""The part of a run that contains NaN or Inf: the result, a gradient, or neither (empty)."""


class Unreachable(Exception):
    """Raised for an operand that cannot be differentiated by its name. The message says why."""


@dataclass(frozen=True)
class Look:
    """The result of a run on one row: the operand's number nearest to the end of its range, the margin between them,
    and the margin's slope.

    ``broken`` says whether the framework gave NaN or Inf, in the result or in a gradient.
    """

    row: Array
    number: float
    margin: float
    slope: Array
    broken: Broken

    @property
    def is_there(self) -> bool:
        """Has the operand reached the end of its range?"""
        return self.margin <= 0


class TriedProgram:
    """A function under trial. All of its runs begin in the same state."""

    def __init__(
        self, function: Callable[..., Any], backend: Backend, trials: Trials, inputs: Inputs, replay: Replay
    ) -> None:
        self.function, self.backend, self.trials, self.inputs, self.replay = function, backend, trials, inputs, replay
        self.reports: dict[bytes, Report] = {}
        self.returns_tensors = True  # did the last run return floating tensors?
        self.raised: dict[str, int] = {}  # errors of the program in the search, by class name, with their counts

    # Methods that run the program without a probe.

    def broken(self, row: Array) -> Broken:
        """Run the program without a probe. Returns which contains NaN or Inf: its result or its gradients."""
        args, kwargs = self.inputs.arguments(row)
        with self.replay.run():
            ran = self.trials.run(self.function, args, kwargs)
        self.returns_tensors = bool(ran.results)
        if self._are_finite(ran.results):
            return "" if self._are_finite(ran.gradients) else "gradient"
        return "result"

    def _are_finite(self, tensors: Sequence[Any]) -> bool:
        counts = self.backend.arrays.nonfinite(list(tensors))
        return all(count is None or count.is_finite for count in counts)

    # Methods that run the program under a probe.

    def recorded(self, row: Array) -> Recording:
        """The recording of a run on a row: all values by name, and the places of NaN and Inf."""
        args, kwargs = self.inputs.arguments(row)
        for of in (None, self.trials.total):  # If the result has several tensors, their sum is the output.
            cotangent, name = SUMMED if of is None else None, self.backend.name
            made: Probe[..., Any] = Probe(
                self.function, of=of, cotangent=cotangent, options=Options(nonfinite=True), backend=name
            )
            try:
                with self.replay.run():
                    return made(*args, **kwargs)
            except BadOutput:
                if of is not None or not self.returns_tensors:
                    raise
        raise AssertionError

    def explained(self, row: Array) -> Report:
        """The report of ``explain`` on a run with this row."""
        key = row.tobytes()
        if key not in self.reports:
            self.reports[key] = explain(self.recorded(row), experiments=False)
        return self.reports[key]

    def look(self, risk: Risk, row: Array, *, only_broken: bool = False) -> Look | None:
        """Run the program on a row, and return the state of a risk's operand.

        None if the program raises an error or does not reach the operation; with ``only_broken``, also if no NaN or Inf
        occurs. Raises Unreachable.
        """
        try:
            broken = self.broken(row)
            return self._look(risk, row, broken) if broken or not only_broken else None
        except (BadOutput, NothingToDifferentiate) as error:
            raise Unreachable(error.headline) from error
        except BackprobeError:  # the program took a path on which the operand does not exist
            return None
        except Exception as error:  # noqa: BLE001  what the program refuses is not NaN, and the search goes on
            self.raised[type(error).__name__] = self.raised.get(type(error).__name__, 0) + 1
            return None

    def _look(self, risk: Risk, row: Array, broken: Broken) -> Look:
        args, kwargs = self.inputs.arguments(row)
        names = [risk.operand, *(one.entry for one in self.inputs.variables)]
        found: list[tuple[float, float]] = []
        made: Probe[..., Any] = Probe(
            self.function,
            list(dict.fromkeys(names)),
            of=risk.operand,
            backend=self.backend.name,
            cotangent=Weighing(partial(self._weights, risk, found)),
        )
        with self.replay.run():
            gradient = self.inputs.gradient(made(*args, **kwargs))
        ((number, margin),) = found
        slope = gradient * risk.goal.slope(number)
        return Look(row, number, margin, numpy.where(numpy.isfinite(slope), slope, 0.0), broken)

    def _weights(self, risk: Risk, found: list[tuple[float, float]], operand: Any) -> Array:
        # Weights that select the number nearest to the end: 1 for this number, and 0 for all others.
        numbers = numpy.asarray(self.backend.arrays.numbers(operand), float)
        at, number, margin = nearest_to(risk.goal, numbers)
        found.append((number, margin))
        weights = numpy.zeros(numbers.size)
        weights[at] = 1.0
        return weights.reshape(numbers.shape)
