"""One call under check: its derivative along random directions, compared with finite differences of its outputs.

Each input x has one random direction d, which moves every element. All outputs share one random cotangent c. The
framework's vector-Jacobian product g is right if <g, d> equals the derivative of <c, F(x + td)> at t = 0. An error in a
single element shows up in this sum, as long as it exceeds the uncertainty of the differences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from backprobe.backends.recheck import RecordedCall
from backprobe.check.differences import SETTLED, TRUSTED, Slope, scatter, slope
from backprobe.check.second_derivative import GradientCall
from backprobe.record.quoted_errors import first_line
from backprobe.record.reasons import Reason

# relative to an element of a gradient; smaller errors are ignored as rounding of a single-precision backward pass
MATTERS = 1e-6
HOPELESS = 1e-2  # relative to a slope; differences with a larger error prove nothing, unless the slope is almost zero
SINGLE = 2.0**-23  # the rounding of single precision
# a relative step that turns round numbers such as 1.0 into numbers with many digits
TINY = 2.0**-12
STRAY = 100  # an output whose error exceeds this multiple of the median error is not checked


@dataclass(frozen=True)
class DirectionCheck:
    """A comparison along one direction: analytic and numeric derivative, noise of the numeric one, and their scale."""

    analytic: float
    numeric: float
    noise: float
    scale: float

    @property
    def differs(self) -> bool:
        """Do the analytic and the numeric derivative differ by more than noise?"""
        return not abs(self.analytic - self.numeric) <= TRUSTED * self.noise

    @property
    def resolution(self) -> float:
        """The smallest error that this comparison would detect, relative to the terms of the sum."""
        if not self.scale:
            return float("inf") if self.noise else 0.0
        return TRUSTED * self.noise / self.scale

    @property
    def error(self) -> float:
        """The difference relative to the terms of the sum; 0 if the terms are smaller than the noise."""
        return abs(self.analytic - self.numeric) / self.scale if self.scale > TRUSTED * self.noise else 0.0


@dataclass(frozen=True)
class Outline:
    """What finite differences along all inputs' directions show, before any gradient is computed."""

    slopes: tuple[Slope, ...]
    left_out: Mapping[str, int]  # number of outputs that cannot be checked, by reason code
    checked: Any  # mask of the outputs that can be checked
    hopeless: frozenset[int]  # inputs for which no slope is known precisely enough


class Uncheckable(Exception):
    """Raised for a call that finite differences cannot check, with the reason."""

    def __init__(self, code: str, **fields: str) -> None:
        super().__init__(code)
        self.reason = Reason(code, fields)


class CheckedCall:
    """One call that is repeated with other values of its inputs.

    Raises Uncheckable if a repetition raises an error or gives other outputs, or if no output is finite.
    """

    def __init__(self, operation: RecordedCall | GradientCall, seed: int = 0) -> None:
        self.operation = operation
        self.random = numpy.random.default_rng(seed)
        self.inputs, self.values = list(operation.inputs.values()), operation.values
        try:
            self.outputs = operation.run(self.values)
        except Exception as error:  # the same values worked before, so the call has changed some state
            raise Uncheckable("raises", error=first_line(error)) from error
        self.at_rest = flat(self.outputs)
        if not numpy.array_equal(self.at_rest, self._at(self.values), equal_nan=True):
            raise Uncheckable("varies")
        if not self.at_rest.size:
            raise Uncheckable("no_elements")
        if not numpy.isfinite(self.at_rest).any():
            raise Uncheckable("not_finite")
        self.steps = [sizes(value) for value in self.values]
        self.epsilon = operation.epsilon
        if self.epsilon < SINGLE and self._is_single():
            self.epsilon = SINGLE
        self.widest = 0.5 * self.epsilon**0.2  # the step that balances truncation error against rounding error
        other = numpy.random.default_rng(seed + 1)
        around = [random_like(value, other) * size for value, size in zip(self.values, self.steps, strict=True)]

        def moved(step: float) -> Any:
            return self._at([value + step * one for value, one in zip(self.values, around, strict=True)])

        self.scatter = scatter(moved, self.epsilon**0.5)  # at this step, third differences are smaller than rounding
        # the outputs are also measured away from the inputs' values, because an output may be 0 only at those values
        self.size = numpy.fmax(abs(self.at_rest), abs(moved(self.widest)))

    def _is_single(self) -> bool:
        # Does the call compute in single precision, even if its arguments have double precision? Then differences can
        # be no more precise than that.
        moved = self._at([value + TINY * self.direction(at) for at, value in enumerate(self.values)])
        with numpy.errstate(over="ignore", invalid="ignore"):
            is_single = numpy.array_equal(moved.astype(numpy.float32), moved)
        # A piecewise constant function, such as rounding, also returns numbers that single precision can hold. But when
        # its inputs move a little, most of its outputs stay the same. So most outputs must have changed.
        return is_single and bool((moved != self.at_rest).mean() > 0.5)

    def _at(self, values: Sequence[Any]) -> Any:
        # Compute the outputs for other values of the inputs; NaN if the call raises or the outputs have other shapes.
        try:
            found = flat(self.operation.run(values))
        except Exception:  # noqa: BLE001  # it is the program's, as of a matrix that is no longer positive
            return numpy.full_like(self.at_rest, numpy.nan)
        return found if found.shape == self.at_rest.shape else numpy.full_like(self.at_rest, numpy.nan)

    # Methods for directions and cotangents.

    def direction(self, at: int) -> Any:
        """Return a random direction for one input, in which each element moves by about its own size."""
        return random_like(self.values[at], self.random) * self.steps[at]

    def cotangent(self, checked: Any, slopes: Sequence[Slope]) -> Any:
        """Return random weights for the outputs that are checked, and 0 for the others.

        Outputs that change little get larger weights, so that none is hidden by the others. But no output may add much
        more noise than half of the outputs do.
        """
        weights = numpy.min([self._weights(found, checked) for found in slopes], axis=0)
        return numpy.where(checked, _random(len(self.at_rest), self.random) * weights, 0.0)

    def _weights(self, found: Slope, checked: Any) -> Any:
        # Weights under which outputs change about equally, within a range; at most 1 for outputs without measurable
        # change.
        with numpy.errstate(all="ignore"):
            moves = checked & (abs(found.value) > TRUSTED * found.error)
            noise = abs(found.error / found.value)
            usual = max(float(numpy.median(noise[moves])), MATTERS) if moves.any() else 1.0
            scale = numpy.where(moves, abs(found.value) * numpy.maximum(1.0, noise / usual), numpy.nan)
            common = float(numpy.median(scale[moves])) if moves.any() else 1.0
            still = found.error / (usual if moves.any() else _least(found.error[checked]))
            range_ = 1e12 if self.epsilon < MATTERS else 1e2  # half precision cannot hold a wider range
            scale = numpy.where(moves, scale, numpy.fmax(still, common))
            scale = numpy.clip(scale, common / range_, common * range_)
        return common / scale

    def slope(self, at: int, direction: Any, widest: float | None = None) -> Slope:
        """Return how all outputs change when one input moves along a direction."""

        def moved(step: float) -> Any:
            values = list(self.values)
            values[at] = values[at] + step * direction
            return self._at(values)

        return slope(moved, self.at_rest, widest or self.widest, self.epsilon, self.scatter)

    def outline(self, directions: Sequence[Any]) -> Outline:
        """Measure how the outputs change with each input, and which outputs and inputs can be checked.

        Raises Uncheckable if no output can be checked.
        """
        slopes = tuple(self.slope(at, direction) for at, direction in enumerate(directions))
        kinked = numpy.any([found.is_kinked for found in slopes], axis=0)
        if kinked.all():
            raise Uncheckable("kink")
        checked, hopeless = ~kinked, []
        for at, found in enumerate(slopes):
            known = self.known(found, ~kinked)
            if known.any():
                checked &= known
            else:
                hopeless.append(at)
        if len(hopeless) == len(slopes) or not checked.any():
            raise Uncheckable("no_convergence")
        unsettled = ~checked & ~kinked
        drowned = unsettled & numpy.all([found.value == 0 for found in slopes], axis=0)
        masks = {"outputs_at_kink": kinked, "outputs_too_large": drowned, "outputs_unsettled": unsettled & ~drowned}
        return Outline(slopes, {code: int(mask.sum()) for code, mask in masks.items()}, checked, frozenset(hopeless))

    def known(self, found: Slope, among: Any) -> Any:
        """Return a mask of the outputs in ``among`` whose slope is known precisely enough.

        No output is in the mask if the typical error is too large.
        """
        finite = numpy.isfinite(found.error) & among
        scale, size = _rms(found.value[finite]), _rms(self.size[finite & numpy.isfinite(self.size)])
        moving = finite & (found.value != 0) if found.value[finite].any() else finite
        typical = float(numpy.median(found.error[moving])) if finite.any() else numpy.inf
        if typical > max(HOPELESS * scale, MATTERS * size):
            return numpy.zeros_like(finite)
        allowed = numpy.maximum(max(STRAY * typical, MATTERS * scale), HOPELESS * abs(found.value))
        still = HOPELESS * scale if scale else _least(found.error[finite]) / SETTLED
        return among & (found.error <= numpy.where(found.value == 0, numpy.maximum(allowed, still), allowed))

    def pull(self, cotangent: Any) -> list[Any]:
        """The gradient with respect to each input, with zeros for None. Raises Uncheckable if computing it fails."""
        try:
            pulled = self.operation.pull(self.values, self.unflat(cotangent))
        except Exception as error:
            raise Uncheckable("backward_raises", error=first_line(error)) from error
        return [
            numpy.zeros_like(value) if gradient is None else gradient
            for value, gradient in zip(self.values, pulled, strict=True)
        ]

    def push(self, at: int, cotangent: Any, direction: Any) -> float | None:
        """Return the derivative along a direction by forward-mode differentiation; None if that is impossible.

        The gradient from ``pull``, multiplied by the direction, should give the same number.
        """
        try:
            moves = self.operation.push(self.values, at, direction)
        except Exception:  # noqa: BLE001  # a derivative written by hand may have no other direction
            return None
        seen = cotangent != 0
        return None if moves is None else float((cotangent[seen] * flat(moves)[seen]).sum())

    def unflat(self, numbers: Any) -> list[Any]:
        """Split a flat array into arrays with the shapes of the outputs."""
        ends = numpy.cumsum([flat([output]).size for output in self.outputs])
        parts = zip(numpy.split(numbers, ends[:-1]), self.outputs, strict=True)
        return [numpy.ascontiguousarray(part).view(output.dtype).reshape(output.shape) for part, output in parts]

    def compare(self, found: Slope, cotangent: Any, gradient: Any, direction: Any) -> DirectionCheck:
        """Compare along one direction, over the outputs with a nonzero cotangent."""
        seen = cotangent != 0
        terms_done = cotangent[seen] * found.value[seen]
        terms_said = flat([gradient]) * flat([direction])
        scale = max(float(numpy.linalg.norm(terms_done)), float(numpy.linalg.norm(terms_said)))
        noise = float(numpy.linalg.norm(cotangent[seen] * found.error[seen]))
        rounding = self.epsilon * float(abs(terms_done).sum() + abs(terms_said).sum())
        return DirectionCheck(float(terms_said.sum()), float(terms_done.sum()), noise + rounding, scale)

    def is_next_to_nothing(self, compared: DirectionCheck, cotangent: Any) -> bool:
        """Do the outputs move so little, relative to their size, that only noise is left?"""
        size = float(numpy.linalg.norm((cotangent * self.size)[numpy.isfinite(self.size) & (cotangent != 0)]))
        rounding = max(MATTERS, self.epsilon / self.widest) * size
        return bool(max(compared.scale, TRUSTED * compared.noise) <= TRUSTED * rounding)


def flat(arrays: Sequence[Any]) -> Any:
    """All real numbers of some arrays in one flat array; complex numbers become pairs of real and imaginary part."""
    parts = [numpy.ascontiguousarray(array).reshape(-1) for array in arrays]
    real = [part.view(numpy.float64) if numpy.iscomplexobj(part) else part for part in parts]
    return numpy.concatenate(real) if real else numpy.zeros(0)


def sizes(value: Any) -> Any:
    """Return a step for each element: its own size, or a small typical size of the others if the element is very small.

    Elements that are infinite or NaN do not move.
    """
    size = abs(value)
    usual = size[numpy.isfinite(size) & (size > 0)]
    least = float(numpy.quantile(usual, 0.1)) if usual.size else 1.0
    return numpy.where(numpy.isfinite(size), numpy.maximum(size, least), 0.0)


def random_like(value: Any, random: Any) -> Any:
    """Random numbers of either sign and of magnitude 1/2 to 3/2, so never near 0; for complex values, both parts."""
    size = value.size
    numbers = _random(size, random)
    if numpy.iscomplexobj(value):
        numbers = numbers + 1j * _random(size, random)
    return numbers.reshape(value.shape)


def _random(count: int, random: Any) -> Any:
    return random.uniform(0.5, 1.5, count) * random.choice([-1.0, 1.0], count)


def _least(errors: Any) -> float:
    # The smallest finite error that is not 0; 1 if there is none.
    return float(min(errors[numpy.isfinite(errors) & (errors > 0)], default=1.0))


def _rms(values: Any) -> float:
    return float(numpy.sqrt(numpy.mean(numpy.square(values)))) if values.size else 0.0
