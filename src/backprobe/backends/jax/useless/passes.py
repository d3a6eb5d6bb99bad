"""Goes backward through a JAX program to find where a gradient vanishes: exactly 0 after one operation, or
cancelled.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from backprobe.backends.jax import private
from backprobe.backends.jax.control_flow import OPAQUE
from backprobe.backends.jax.derivative_flow import is_flat
from backprobe.backends.jax.useless.constants import constants
from backprobe.backends.jax.useless.program import EquationStep, RecordedProgram
from backprobe.backends.useless import CANCELS, FLAT, TIMES_ZERO, End
from backprobe.backends.useless.ways import BY_CHANCE, Sum, Ways, decisive


@dataclass
class Passed:
    """The cotangents that one step received, and what it passed on during backward."""

    cotangents: Sequence[Any]
    gave: dict[int, bool] = field(default_factory=dict)  # by the place of the operand: is the cotangent exactly 0?


class BackwardThroughSteps(Ways[int, EquationStep]):
    """The backward pass through the steps of a program."""

    def __init__(self, program: RecordedProgram) -> None:
        self.program, self.steps = program, program.live()
        self.passed: dict[EquationStep, Passed] = {}  # the steps whose cotangents are not all 0
        output = program.values[program.output]
        ones = jnp.ones(jnp.shape(output), output.dtype)
        self.makers = {at: step for step in self.steps for at in step.made}
        self.sums: dict[int, Sum] = {}
        if self.steps:
            self._add(program.output, ones, self.steps[-1])
        for step in reversed(self.steps):
            self._through(step)

    def endings(self, inputs: Collection[int]) -> dict[int, End]:
        """Return, for each input position without a gradient, the decisive operation at which the gradient vanishes on
        its way. Positions for which none is decisive are left out.
        """
        arriving, users = self.reached([self.program.output]), self.users(self.steps)
        ended = {position: at for position in inputs if (at := self.program.inputs[position]) not in arriving}
        found = {position: decisive(self.ends(at, users)) for position, at in ended.items()}
        return {position: end for position, end in found.items() if end is not None}

    @cached_property
    def cancelled(self) -> set[int]:
        return {at for at, one in self.sums.items() if at in self.makers and one.cancels} | {*self.constant}

    @cached_property
    def constant(self) -> dict[int, EquationStep]:
        """The values that are used only by calls with a constant result, each with the last step of that call."""
        return dict(constants(self.program, self.steps, self._norms))

    @cached_property
    def _norms(self) -> dict[int, float]:
        return {at: _norm(one.total) for at, one in self.sums.items()}

    def maker(self, value: int) -> EquationStep | None:
        return self.makers.get(value)

    def made(self, step: EquationStep) -> list[int]:
        return [*filter(self.program.is_floating, step.made)]

    def operands(self, step: EquationStep) -> dict[int, tuple[int, bool | None]]:
        gave = passed.gave if (passed := self.passed.get(step)) is not None else {}
        return {place: (at, gave.get(place, True)) for place, at in enumerate(step.given)}

    def has_come(self, step: EquationStep) -> bool:
        return step in self.passed

    def end(self, code: str, step: EquationStep) -> End:
        return End(code, step.operation, step.number, step.line)

    def cancelling(self, value: int) -> End:
        if value in self.constant:
            code = CANCELS if self._norms.get(value, 0.0) else FLAT
            return replace(self.end(code, self.constant[value]), is_constant=True)
        return self.end(CANCELS, self.program.steps[self.sums[value].last])

    def _through(self, step: EquationStep) -> None:
        came = [self.sums.get(at) for at in step.made]
        if not any(one is not None and _is_any(one.total) for one in came):
            return
        cotangents = [None if one is None else one.total for one in came]
        self.passed[step] = passed = Passed(cotangents)
        for place, gradient in self._back(step, cotangents, {}).items():
            at = step.given[place]
            passed.gave[place] = not _is_any(gradient)
            if passed.gave[place]:
                continue
            self._add(at, gradient, step)

    def _add(self, at: int, gradient: Any, step: EquationStep) -> None:
        if at not in self.sums:
            self.sums[at] = Sum(_norm, _unit)
        self.sums[at].add(gradient, step.number)

    def _places(self, step: EquationStep) -> list[int]:
        # Return the places of the operands that may be differentiated.
        program = self.program
        return [place for place, at in enumerate(step.given) if program.moving[at] and program.is_floating(at)]

    def _back(self, step: EquationStep, cotangents: Sequence[Any], instead: Mapping[int, Any]) -> dict[int, Any]:
        # Return the gradient that a step passes to each operand, by place. ``instead`` replaces some operands.
        places, program = self._places(step), self.program
        values = [program.values[at] for at in step.given]
        for place, value in instead.items():
            values[place] = value
        kept = [at for at, made in enumerate(step.made) if program.is_floating(made)]
        if not places or not kept:
            return {}

        def run(*some: Any) -> list[Any]:
            held = dict(zip(places, some, strict=True))
            made = private.bind(step.equation, [held.get(at, value) for at, value in enumerate(values)])
            return [made[at] for at in kept]

        made, pull = jax.vjp(run, *[jnp.asarray(values[place]) for place in places])
        given = [cotangents[at] for at in kept]
        seeds = [jnp.zeros_like(one) if own is None else own for own, one in zip(given, made, strict=True)]
        return dict(zip(places, pull(seeds), strict=True))

    def why(self, step: EquationStep, at: int) -> str:
        """Return the reason why a step passes nothing to an operand; empty if it never passes anything to that
        operand.
        """
        program, name, place, passed = self.program, step.equation.primitive.name, at, self.passed[step]
        if is_flat(step.equation, [at == place for at in range(len(step.given))]):
            return ""
        if (name in OPAQUE and name != "custom_jvp_call") or name == private.SCAN:
            return BY_CHANCE  # the function inside is unknown
        is_chosen = not all(is_zero for other, is_zero in passed.gave.items() if other != place)
        if is_chosen or self._gives(step, place, _drawn(passed.cotangents), {}):
            return BY_CHANCE  # another operand gets the gradient, or no gradient arrived
        zeros = [other for other in range(len(step.given)) if self._is_factor(step, place, other, passed.cotangents)]
        if any(program.moving[step.given[other]] for other in zeros):
            return BY_CHANCE
        return TIMES_ZERO if zeros else FLAT

    def _is_factor(self, step: EquationStep, place: int, other: int, cotangents: Sequence[Any]) -> bool:
        # Is the operand ``other`` 0 everywhere, and would a larger one let a larger gradient flow to ``place``?
        value = jnp.asarray(self.program.values[step.given[other]])
        is_number = value.dtype == bool or jnp.issubdtype(value.dtype, jnp.inexact)
        if not is_number or _is_any(value):
            return False
        if value.dtype == bool:
            return self._gives(step, place, cotangents, {other: ~value})
        once, twice = (
            numpy.asarray(self._back(step, cotangents, {other: jnp.full_like(value, times)})[place]) for times in (1, 2)
        )
        is_more = (abs(twice) > abs(once)) | (once == 0)
        return bool(once.any() and is_more.all() and ((once == 0) == (twice == 0)).all())

    def _gives(self, step: EquationStep, place: int, cotangents: Sequence[Any], instead: Mapping[int, Any]) -> bool:
        return _is_any(self._back(step, cotangents, instead)[place])


def _drawn(cotangents: Sequence[Any]) -> list[Any]:
    # Return random cotangents without any 0.
    drawn = numpy.random.default_rng(0)

    def like(one: Any) -> Any:
        return jnp.asarray(drawn.uniform(1, 2, one.shape) * drawn.choice([-1, 1], one.shape), one.dtype)

    return [None if one is None else like(one) for one in cotangents]


def _is_any(array: Any) -> bool:
    # Does the array contain a number other than 0?
    return bool(numpy.asarray(array).any())


def _unit(array: Any) -> float:
    return float(jnp.finfo(array.dtype).eps)


def _norm(array: Any) -> float:
    return float(numpy.linalg.norm(numpy.asarray(array).astype(numpy.float64).reshape(-1)))
