"""Finds probabilities that are passed to softmax. It compares numbers, and ignores the names of operations.

A value counts as the softmax, log-softmax or logsumexp of another value if the numbers agree. A cross-entropy uses
logsumexp, from which it subtracts the picked logits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy

from backprobe.backends.jax.useless.program import EquationStep, RecordedProgram
from backprobe.backends.useless.distributions import EXACT, MOST, axes, near_of

APART, APART_COARSE = 10, 2
"""Equal probabilities are their own softmax. A distribution can be distinguished from its softmax if the two differ by
more than this many times the tolerance. The second number is for 16-bit dtypes.
"""

CHANCE = 1e-7
"""Numbers are compared with the logsumexp of rows only if all would agree by chance with less than this probability."""


class AxisDistribution(NamedTuple):
    """A value that is a distribution along an axis, and the expected results of softmax and similar functions of it."""

    value: int
    far: float
    is_told_apart: bool
    wanted: dict[str, Any]


class Twice(NamedTuple):
    """An operation that applies softmax to a distribution. If all probabilities are equal, the numbers cannot confirm
    this, and ``is_told_apart`` is False.
    """

    step: EquationStep
    applied: str
    is_told_apart: bool


def twice(program: RecordedProgram) -> list[Twice]:
    """Return operations that the output depends on and whose result is the softmax, log-softmax or logsumexp of a
    distribution, at most one for each distribution.
    """
    known: list[AxisDistribution] = []
    derived: dict[int, set[int]] = {}  # by value: the distributions from which the value is computed
    found: dict[int, Twice] = {}
    for step in program.live():
        sources = set().union(*(derived.get(at, ()) for at in step.given))
        for at in step.made:
            if not (program.moving[at] and program.is_floating(at) and 1 <= program.size(at) <= MOST):
                continue
            for one in known:
                if one.value in sources and one.value not in found and (applied := _applied(program, at, one)):
                    found[one.value] = Twice(step, applied, one.is_told_apart)
            derived[at] = set(sources)
            for one in _distribution(program, at):
                known.append(one)
                derived[at].add(at)
    return [*{(one.step, one.applied): one for one in found.values()}.values()]


def _numbers(program: RecordedProgram, at: int) -> Any:
    return numpy.asarray(program.values[at]).astype(numpy.float64)


def _distribution(program: RecordedProgram, at: int) -> Iterator[AxisDistribution]:
    # Yield the distributions that a value is, one for each axis along which it is a distribution.
    if program.size(at) < 2:
        return
    held, x = numpy.asarray(program.values[at]), _numbers(program, at)
    far = near_of(held)
    for axis in axes(held, far):
        sums = numpy.log(numpy.exp(x).sum(axis, keepdims=True))
        softmax, top = numpy.exp(x - sums), x.max(axis, keepdims=True)
        times = APART if far == EXACT else APART_COARSE
        apart = bool((abs(x - softmax) > times * 10 * far * softmax).any())
        wanted = {"softmax": softmax, "log-softmax": x - sums}
        if far**sums.size < CHANCE:
            wanted |= {"logsumexp": sums, "logsumexp.": sums - top}
        yield AxisDistribution(at, far, apart, wanted)


def _applied(program: RecordedProgram, at: int, one: AxisDistribution) -> str:
    # Return the name of the function whose expected result equals a value; empty if there is none.
    shape, y = program.shape(at), None
    for name, wanted in one.wanted.items():
        if shape != wanted.shape and (name in ("softmax", "log-softmax") or program.size(at) != wanted.size):
            continue
        y = _numbers(program, at).reshape(-1) if y is None else y
        flat = wanted.reshape(-1)
        far = one.far if name.startswith("logsumexp") else 10 * one.far
        if y.size == flat.size and bool((abs(y - flat) <= far * abs(flat) + 1e-12).all()):
            return name.removesuffix(".")
    return ""
