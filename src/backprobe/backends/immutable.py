"""Shared by backends whose values are read as NumPy arrays on the host: their numbers, and sums of those."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from backprobe.backends.facts import Outcome
from backprobe.record.entries import GradStatus
from backprobe.record.inputs import PathSums
from backprobe.record.reasons import Reason


def is_floating_number(leaf: Any) -> bool:
    """Is it a floating number or array of Python or NumPy, or of what others add to NumPy, such as bfloat16?"""
    if isinstance(leaf, numpy.ndarray | numpy.generic):
        return leaf.dtype.kind in "fc" or (leaf.dtype.kind == "V" and "float" in leaf.dtype.name)
    return isinstance(leaf, float | complex)


CANCELLED = 16.0  # of the residue: a few roundings of an expression's terms
LARGEST_BLOCK = 1_000_000  # elements of a Jacobian block that ``partials="full"`` still takes


def too_large(elements: int) -> Reason | None:
    """Why a Jacobian block of so many elements is not computed; None where it is."""
    if elements <= LARGEST_BLOCK:
        return None
    return Reason("block_too_large", {"elements": f"{elements:,}", "most": f"{LARGEST_BLOCK:,}"})


def path_sums(outcomes: Sequence[Outcome], output: int | None, uncounted: Collection[int] = ()) -> PathSums:
    """Do the contributions of each captured value's consumers sum to its gradient?

    ``output`` is the position of what was differentiated, whose gradient came from outside. Of the ``uncounted`` not
    all contributions are known.
    """
    gradients = [numpy.asarray(one.grad) if one.status is GradStatus.OK else None for one in outcomes]
    coarsest = [0.0 if each is None else rounding(each.dtype) for each in gradients]
    epsilons = list(coarsest)
    residue = [0.0] * len(coarsest)
    flowing: dict[int, list[Any]] = {} if output is None else {output: [gradients[output]]}
    for at, outcome in enumerate(outcomes):
        for edge in outcome.inputs:
            if edge.contribution is not None:
                flowing.setdefault(edge.at, []).append(edge.contribution)
                coarsest[edge.at] = max(coarsest[edge.at], epsilons[at])
                residue[edge.at] = max(residue[edge.at], epsilons[at] * largest(gradients[at]))
    there = {at: gradient for at, gradient in enumerate(gradients) if gradient is not None}
    sums = (
        GradientSum(at, gradient, flowing.get(at, ()), coarsest[at], residue[at], smallest_normal(gradient.dtype))
        for at, gradient in there.items()
        if at not in uncounted
    )
    return compared(sums, [at for at in there if at in uncounted])


@dataclass(frozen=True)
class GradientSum:
    """A gradient by position, and the parts that should sum to it.

    ``rounding`` is that of the coarsest dtype in it, and ``residue`` is how large rounding alone may be where terms of
    the size of the consumers' gradients cancel inside an expression, as in ``k / a - k / a``. Below ``smallest``, the
    smallest normal number of the gradient's dtype, numbers have fewer digits, down to none.
    """

    at: int
    gradient: Any
    parts: Sequence[Any]
    rounding: float
    residue: float
    smallest: float

    @property
    def has_no_digits(self) -> bool:
        """Could rounding alone make the sum another number?"""
        return self.scale <= max(CANCELLED * self.residue, self.smallest / math.sqrt(self.rounding))

    @property
    def scale(self) -> float:
        return max(largest(part) for part in (self.gradient, *self.parts))


def compared(sums: Iterable[GradientSum], unjudged: Sequence[int] = ()) -> PathSums:
    """Do parts sum to gradients?

    Two sums of the same terms in different orders differ by rounding: half the digits must agree. What is left of
    terms that cancel has no digits, nor has what underflows, and is not judged where it differs.
    """
    judged, worst, apart, agree, without = 0, None, 0.0, True, list(unjudged)
    for each in sums:
        difference = _difference(each)
        if math.sqrt(each.rounding) < difference < math.inf and each.has_no_digits:
            without.append(each.at)
            continue
        judged += 1
        agree = agree and difference <= math.sqrt(each.rounding)
        if difference > apart:
            worst, apart = each.at, difference
    return PathSums(judged=judged, difference=apart, agree=agree, worst_at=worst, unjudged_at=tuple(without))


def rounding(dtype: Any) -> float:
    """The step from 1 to the next number of a floating or complex dtype."""
    return float(numpy.spacing(numpy.ones((), dtype).real))


def smallest_normal(dtype: Any) -> float:
    """The smallest number of a floating or complex dtype that has all its digits."""
    return float(numpy.spacing(numpy.zeros((), dtype).real)) / rounding(dtype)


def largest(numbers: Any) -> float:
    """The largest finite magnitude; 0 where there is none."""
    magnitudes = numpy.abs(numpy.asarray(0.0 if numbers is None else numbers)).astype(numpy.float64)
    return float(magnitudes[numpy.isfinite(magnitudes)].max(initial=0.0))


def _difference(each: GradientSum) -> float:
    # How far a gradient is from the sum of its parts, relative to the largest number among them.
    wide = numpy.complex128 if numpy.iscomplexobj(each.gradient) else numpy.float64
    parts = [numpy.asarray(part).astype(wide) for part in (each.gradient, *each.parts)]
    with numpy.errstate(all="ignore"):
        total = sum(parts[1:], numpy.zeros_like(parts[0]))
        differs = ~((total == parts[0]) | (numpy.isnan(total) & numpy.isnan(parts[0])))
        if not differs.any():
            return 0.0
        apart = numpy.abs(total - parts[0])[differs]
    scale = each.scale
    return float(apart.max()) / scale if bool(numpy.isfinite(apart).all()) and scale else math.inf
