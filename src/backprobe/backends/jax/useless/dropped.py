"""Finds results in a function of a JAX program that nothing uses and that no variable holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import CodeType
from typing import Any

import numpy

from backprobe.backends.call_sites import Instruction
from backprobe.backends.jax import private
from backprobe.backends.jax.useless.program import EquationStep, RecordedProgram
from backprobe.backends.useless.dropped import dropped_by
from backprobe.source.user_code import package


def dropped(program: RecordedProgram) -> Iterator[Instruction]:
    """Yield the instructions that discard a result computed from differentiated values."""
    used = {at for step in program.steps for at in step.given} | {program.output}
    for step in program.steps:
        if used.isdisjoint(step.made) and _is_new(program, step):
            at = dropped_by(private.instructions(step.equation), ("jax",))
            if at is not None and _own(private.inner_equations(step.equation)) <= {at[0]}:
                yield at


def _own(equations: Iterable[Any]) -> set[CodeType]:
    # Return the code objects of the program's own functions that made these equations.
    codes = (code for one in equations for code, _ in private.instructions(one))
    return {code for code in codes if package(code.co_filename) is None}


def _is_new(program: RecordedProgram, step: EquationStep) -> bool:
    # Does the step compute a new array that differs from its inputs, without side effects?
    if len(step.made) != 1 or step.equation.effects:
        return False
    (at,) = step.made
    if not (program.moving[at] and program.is_floating(at)):
        return False
    alike = [one for one in step.given if program.shape(one) == program.shape(at) and program.moving[one]]
    made = numpy.asarray(program.values[at])
    return not any(numpy.array_equal(numpy.asarray(program.values[one]), made) for one in alike)
