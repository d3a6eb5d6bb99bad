"""Numbers and sums of numbers, for backends whose values are read as NumPy arrays on the host."""

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
    """Is the value a floating or complex number or array of Python or NumPy, or one of a floating dtype that a package
    adds to NumPy, such as bfloat16?
    """
    if isinstance(leaf, numpy.ndarray | numpy.generic):
        return leaf.dtype.kind in "fc" or (leaf.dtype.kind == "V" and "float" in leaf.dtype.name)
    return isinstance(leaf, float | complex)


CANCELLED = 16.0  # in units of ``GradientSum.residue``: a few roundings of an expression's terms
LARGEST_BLOCK = 1_000_000  # the largest Jacobian block, in elements, that ``partials="full"`` computes


def too_large(elements: int) -> Reason | None:
    """Return why a Jacobian block with this number of elements is not computed; None if it is computed."""
    if elements <= LARGEST_BLOCK:
        return None
    return Reason("block_too_large", {"elements": f"{elements:,}", "most": f"{LARGEST_BLOCK:,}"})


def path_sums(outcomes: Sequence[Outcome], output: int | None, uncounted: Collection[int] = ()) -> PathSums:
    """Compare each captured value's gradient with the sum of its consumers' contributions.

    ``output`` is the position of the differentiated value, whose gradient is the cotangent. For the ``uncounted``
    values not all contributions are known.
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
    """A gradient, the position of its capture, and the parts whose sum should equal the gradient.

    ``rounding`` is the relative rounding error of the coarsest dtype involved. ``residue`` is the largest rounding
    error to expect if terms as large as the consumers' gradients cancel inside an expression, as in ``k / a - k / a``.
    Below ``smallest``, the smallest normal number of the gradient's dtype, numbers have fewer and fewer digits.
    """

    at: int
    gradient: Any
    parts: Sequence[Any]
    rounding: float
    residue: float
    smallest: float

    @property
    def has_no_digits(self) -> bool:
        """Are the gradient and all its parts so small that they may be only rounding errors, or have too few digits?"""
        return self.scale <= max(CANCELLED * self.residue, self.smallest / math.sqrt(self.rounding))

    @property
    def scale(self) -> float:
        return max(largest(part) for part in (self.gradient, *self.parts))


def compared(sums: Iterable[GradientSum], unjudged: Sequence[int] = ()) -> PathSums:
    """Compare each gradient with the sum of its parts.

    Two sums of the same terms in different orders differ by rounding, so only half of the digits must agree. If terms
    cancel or a number underflows, the result has no reliable digits. If such results differ, no conclusion is drawn.
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
    """Return the distance from 1 to the next larger number of a floating or complex dtype."""
    return float(numpy.spacing(numpy.ones((), dtype).real))


def smallest_normal(dtype: Any) -> float:
    """Return the smallest number of a floating or complex dtype that has full precision."""
    return float(numpy.spacing(numpy.zeros((), dtype).real)) / rounding(dtype)


def largest(numbers: Any) -> float:
    """Return the largest finite magnitude; 0 if there is none."""
    magnitudes = numpy.abs(numpy.asarray(0.0 if numbers is None else numbers)).astype(numpy.float64)
    return float(magnitudes[numpy.isfinite(magnitudes)].max(initial=0.0))


def _difference(each: GradientSum) -> float:
    # Return the distance of a gradient from the sum of its parts, relative to the largest number among them.
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
