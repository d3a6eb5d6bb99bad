"""The way back of gradients that come to nothing: exactly 0 at one operation, or cancelled."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from backprobe.backends.jax import private
from backprobe.backends.jax.control_flow import OPAQUE
from backprobe.backends.jax.derivative_flow import is_flat
from backprobe.backends.jax.useless.program import Program, Step
from backprobe.backends.useless import CANCELS, FLAT, TIMES_ZERO, Ending

ROUNDING = 64
"""Contributions cancel if their sum is at most so many units of rounding of the sum of their norms.

In healthy trainings it is above 5e5: see docs/useless.md.
"""
BY_CHANCE = "trained"
"""A reason for 0 of which nothing is said: a factor that is trained is 0 now, or the parts of one sum cancel."""

Why = tuple[str, Step]
"""The code of why nothing goes on, and the step at which it does not."""


@dataclass
class Passed:
    """What one step was given and gave, as backward went through it."""

    cotangents: Sequence[Any]
    gave: dict[int, bool] = field(default_factory=dict)  # by the place of the operand: is it exactly 0?


@dataclass
class Sum:
    """The contributions that came to one value."""

    total: Any
    norms: float
    last: Step
    count: int = 1

    def add(self, gradient: Any) -> None:
        self.total = self.total + gradient
        self.norms += _norm(gradient)
        self.count += 1

    @property
    def cancels(self) -> bool:
        """Is what remains of several contributions but rounding?"""
        if self.count < 2 or not self.norms:
            return False
        return bool(_norm(self.total) <= ROUNDING * float(jnp.finfo(self.total.dtype).eps) * self.norms)


class Pass:
    """Backward through the steps of a program."""

    def __init__(self, program: Program) -> None:
        self.program, self.steps = program, program.live()
        self.passed: dict[Step, Passed] = {}  # the steps that something came to that is not 0
        output = program.values[program.output]
        ones = jnp.ones(jnp.shape(output), output.dtype)
        self.sums: dict[int, Sum] = {program.output: Sum(ones, 1.0, self.steps[-1])} if self.steps else {}
        for step in reversed(self.steps):
            self._through(step)
        inner = {at: one for at, one in self.sums.items() if at not in set(program.inputs)}
        self.cancelled = {at for at, one in inner.items() if one.cancels}

    def endings(self, inputs: Collection[int]) -> dict[int, Ending]:
        """By the position of an input: where what is on its way there comes to nothing, if none of it arrives."""
        arriving, users = self._reached(), defaultdict[int, list[tuple[Step, int]]](list)
        for step in self.steps:
            for place, at in enumerate(step.given):
                users[at].append((step, place))
        found = {}
        for position in inputs:
            at = self.program.inputs[position]
            each = {} if at in arriving else dict(self._ended(at, users))
            codes = {code for code, _ in each.values()}
            if each and BY_CHANCE not in codes:
                code = CANCELS if CANCELS in codes else max(codes)
                first = max((step for one, step in each.values() if one == code), key=lambda step: step.number)
                found[position] = Ending(code, first.operation, first.line)
        return found

    def _through(self, step: Step) -> None:
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
            if at in self.sums:
                self.sums[at].add(gradient)
            else:
                self.sums[at] = Sum(gradient, _norm(gradient), step)

    def _places(self, step: Step) -> list[int]:
        # The operands that a derivative may go on to.
        program = self.program
        return [place for place, at in enumerate(step.given) if program.moving[at] and program.is_floating(at)]

    def _back(self, step: Step, cotangents: Sequence[Any], instead: Mapping[int, Any]) -> dict[int, Any]:
        # What a step gives its operands, by their places; with some of them exchanged.
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

    def _reached(self) -> set[int]:
        # The values to which something comes that is neither 0 nor rounding.
        found = {self.program.output}
        for step in reversed(self.steps):
            passed = self.passed.get(step)
            if passed is not None and any(at in found and at not in self.cancelled for at in step.made):
                found.update(step.given[place] for place, is_zero in passed.gave.items() if not is_zero)
        return found - self.cancelled

    def _ended(self, at: int, users: Mapping[int, Sequence[tuple[Step, int]]]) -> Iterator[tuple[Any, Why]]:
        pending, visited = [at], {at}
        while pending:
            value = pending.pop()
            if value in self.cancelled:
                yield value, (CANCELS, self.sums[value].last)
                continue
            for step, place in users[value]:
                passed = self.passed.get(step)
                if passed is not None and passed.gave.get(place, True):
                    if why := self._why(step, place, passed):
                        yield (step, place), (why, step)
                    continue
                new = [made for made in step.made if made not in visited and self.program.is_floating(made)]
                visited.update(new)
                pending += new

    def _why(self, step: Step, place: int, passed: Passed) -> str:
        # Why does a step give exactly 0 to one of its operands? Nothing is said of one that never gives anything.
        program, name = self.program, step.equation.primitive.name
        if is_flat(step.equation, [at == place for at in range(len(step.given))]):
            return ""
        if (name in OPAQUE and name != "custom_jvp_call") or name == private.SCAN:
            return BY_CHANCE  # what is in there is not known
        is_chosen = not all(is_zero for other, is_zero in passed.gave.items() if other != place)
        if is_chosen or self._gives(step, place, _drawn(passed.cotangents), {}):
            return BY_CHANCE  # it goes on to another operand, or where nothing came from
        zeros = [other for other in range(len(step.given)) if self._is_factor(step, place, other, passed.cotangents)]
        if any(program.moving[step.given[other]] for other in zeros):
            return BY_CHANCE
        return TIMES_ZERO if zeros else FLAT

    def _is_factor(self, step: Step, place: int, other: int, cotangents: Sequence[Any]) -> bool:
        # Is one operand 0 everywhere, and would more come to another, the more that one were?
        value = jnp.asarray(self.program.values[step.given[other]])
        is_number = value.dtype == bool or jnp.issubdtype(value.dtype, jnp.inexact)
        if not is_number or _is_any(value):
            return False
        if value.dtype == bool:
            return self._gives(step, place, cotangents, {other: ~value})
        once, twice = (numpy.asarray(self._back(step, cotangents, {other: jnp.full_like(value, times)})[place])
                       for times in (1, 2))  # fmt: skip
        is_more = (abs(twice) > abs(once)) | (once == 0)
        return bool(once.any() and is_more.all() and ((once == 0) == (twice == 0)).all())

    def _gives(self, step: Step, place: int, cotangents: Sequence[Any], instead: Mapping[int, Any]) -> bool:
        return _is_any(self._back(step, cotangents, instead)[place])


def _drawn(cotangents: Sequence[Any]) -> list[Any]:
    # Other numbers, none of which is 0.
    drawn = numpy.random.default_rng(0)
    return [None if one is None else jnp.asarray(_away_from_zero(drawn, one.shape), one.dtype) for one in cotangents]


def _away_from_zero(drawn: numpy.random.Generator, shape: Sequence[int]) -> Any:
    return drawn.uniform(1, 2, shape) * drawn.choice([-1, 1], shape)


def _is_any(array: Any) -> bool:
    # Is any number of it not 0?
    return bool(numpy.asarray(array).any())


def _norm(array: Any) -> float:
    return float(numpy.linalg.norm(numpy.asarray(array).astype(numpy.float64).reshape(-1)))
