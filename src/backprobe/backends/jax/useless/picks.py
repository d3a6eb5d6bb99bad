"""Finds numbers that a function of a JAX program treats as log-probabilities although they are not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from backprobe.backends.jax import private
from backprobe.backends.jax.useless.program import EquationStep, RecordedProgram
from backprobe.backends.useless import distributions, picks
from backprobe.backends.useless.shapes import Shape
from backprobe.record.graph import reached
from backprobe.record.source import Source


def unnormalised(program: RecordedProgram) -> list[Source | None]:
    """Return the lines that picked numbers whose negative sum or mean is the output, if the numbers are not
    log-probabilities.
    """
    found = Picks(program)
    for step in program.live():
        if len(step.made) == 1 and program.is_floating(step.made[0]):
            found.look(step, step.given)
    return [*dict.fromkeys(step.line for step in found.losses([program.output]))]


class Picks(picks.Picks[EquationStep]):
    """The picked numbers in one function."""

    def __init__(self, program: RecordedProgram) -> None:
        super().__init__()
        self.program = program
        self.makers = {at: step for step in program.steps for at in step.made}

    def given(self, one: EquationStep) -> Sequence[Any]:
        return [self.program.values[at] for at in one.given]

    def made(self, one: EquationStep) -> Any:
        return self.program.values[one.made[0]]

    def number(self, one: EquationStep) -> int:
        return one.made[0]

    def place(self, one: EquationStep) -> EquationStep:
        return one

    def is_reduction(self, one: EquationStep) -> bool:
        return len(one.given) == 1

    def slopes(self, one: EquationStep, at: int) -> Any:
        values = self.given(one)

        def run(operand: Any) -> Any:
            given = [operand if at == place else each for place, each in enumerate(values)]
            return private.bind(one.equation, given)[0]

        made, pull = jax.vjp(run, jnp.asarray(values[at]))
        return self.wide(pull(jnp.ones_like(made))[0])

    def is_trained(self, number: int) -> bool:
        return self.program.moving[number]

    def _by_index(self, one: EquationStep, numbers: Sequence[int]) -> None:
        if self._has_weights(numbers[0]):
            super()._by_index(one, numbers)

    def _by_mask(self, one: EquationStep, numbers: Sequence[int]) -> None:
        if any(map(self._has_weights, numbers)):
            super()._by_mask(one, numbers)

    def _has_weights(self, number: int) -> bool:
        # Are the scores computed with trained weights? In an adversarial attack or a generator only the samples are
        # trained.
        program = self.program

        def moving(at: int) -> list[int]:
            step = self.makers.get(at)
            return [] if step is None else [one for one in step.given if program.moving[one]]

        alike = reached([number], lambda at: [one for one in moving(at) if program.shape(one) == program.shape(at)])
        first = program.shape(number)[:1]
        return any(program.shape(self._narrow(one))[:1] != first for at in alike for one in moving(at))

    def _narrow(self, at: int) -> int:
        # Return the array that was broadcast to this one, or the array itself.
        step = self.makers.get(at)
        while step is not None and len(step.given) == 1 and self.program.size(step.given[0]) < self.program.size(at):
            at = step.given[0]
            step = self.makers.get(at)
        return at

    def is_float(self, array: Any) -> bool:
        return isinstance(array, float) or bool(jnp.issubdtype(getattr(array, "dtype", bool), jnp.floating))

    def shape(self, array: Any) -> Shape:
        return tuple(jnp.shape(array))

    def wide(self, array: Any) -> Any:
        return numpy.asarray(array).astype(numpy.float64)

    def near(self, array: Any) -> float:
        return distributions.near_of(numpy.asarray(array))
