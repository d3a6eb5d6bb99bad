"""The program that is to break: run on rows of numbers, bare and under a probe."""

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
"""What holds NaN or Inf."""


class Unreachable(Exception):
    """An operand that cannot be differentiated by its name; ``why`` says it."""


@dataclass(frozen=True)
class Look:
    """What is known at one row: the operand's number that is nearest to its end, its margin, and the margin's slope.

    ``broken`` says what the framework itself gave as NaN or Inf there.
    """

    row: Array
    number: float
    margin: float
    slope: Array
    broken: Broken

    @property
    def is_there(self) -> bool:
        """Has the operand come to its end?"""
        return self.margin <= 0


class TriedProgram:
    """A function under trial, whose runs all begin in the same state."""

    def __init__(
        self, function: Callable[..., Any], backend: Backend, trials: Trials, inputs: Inputs, replay: Replay
    ) -> None:
        self.function, self.backend, self.trials, self.inputs, self.replay = function, backend, trials, inputs, replay
        self.reports: dict[bytes, Report] = {}
        self.returns_tensors = True  # floating ones, in the last run
        self.raised: dict[str, int] = {}  # errors of the program at rows that were tried, and how often each came

    # bare

    def broken(self, row: Array) -> Broken:
        """Run the program without a probe: does its result hold NaN or Inf, or a gradient?"""
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

    # under a probe

    def recorded(self, row: Array) -> Recording:
        """A row with all that is computed by name, and with where NaN and Inf are."""
        args, kwargs = self.inputs.arguments(row)
        for of in (None, self.trials.total):  # of a result with several tensors
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
        """What ``explain`` says of a row."""
        key = row.tobytes()
        if key not in self.reports:
            self.reports[key] = explain(self.recorded(row), experiments=False)
        return self.reports[key]

    def look(self, risk: Risk, row: Array, *, only_broken: bool = False) -> Look | None:
        """The operand of a risk at a row; None where the program raises an error there, or does not come to it.

        With ``only_broken`` also where the program does not break. Raises Unreachable.
        """
        try:
            broken = self.broken(row)
            return self._look(risk, row, broken) if broken or not only_broken else None
        except (BadOutput, NothingToDifferentiate) as error:
            raise Unreachable(error.headline) from error
        except BackprobeError:  # the program has taken another path
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
        # 1 for the number nearest to the end, and 0 for all others.
        numbers = numpy.asarray(self.backend.arrays.numbers(operand), float)
        at, number, margin = nearest_to(risk.goal, numbers)
        found.append((number, margin))
        weights = numpy.zeros(numbers.size)
        weights[at] = 1.0
        return weights.reshape(numbers.shape)
