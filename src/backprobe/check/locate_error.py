"""Locates the error of a wrong gradient, by comparing single elements with finite differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from backprobe.backends.recheck import Input
from backprobe.check.checked_call import MATTERS, CheckedCall, flat
from backprobe.check.differences import TRUSTED
from backprobe.record.reasons import Reason

MOST = 144  # number of elements that are compared one by one; a larger input is sampled
# the smallest number of sampled elements, and the number of outputs that may be computed to compare them all
FEWEST, NUMBERS = 8, 2**19
SHOWN = 3
ALIKE = 1e-4  # ratios count as equal if they differ by less than this, relatively


@dataclass(frozen=True)
class Element:
    """One element of an input: its analytic gradient, its numeric gradient, and the noise of the numeric one."""

    index: tuple[int, ...]
    analytic: complex
    numeric: complex
    noise: float

    @property
    def is_off(self) -> bool:
        matters = MATTERS * max(abs(self.analytic), abs(self.numeric))
        return not abs(self.analytic - self.numeric) <= max(TRUSTED * self.noise, matters)


@dataclass(frozen=True)
class Wrong:
    """A gradient that is wrong for one input, or for all if ``input`` is None: by how much, where, and in which way.

    ``error`` is the norm of the difference divided by the norm of the numeric gradient, over the compared elements. It
    is infinite if the numeric gradient is zero.
    """

    input: Input | None
    error: float
    looks: tuple[Reason, ...] = ()
    off: tuple[Element, ...] = ()  # some of the wrong elements
    count: int = 0  # how many of the compared elements are wrong
    seen: int = 0
    size: int = 0
    like: Input | None = None  # another input, for which this gradient would be right
    outputs: tuple[int, ...] = ()  # the outputs through which the gradient is wrong; empty if it is wrong through all
    is_by_hand: bool = False  # True if the backward pass is not the transpose of the forward derivative
    # True if the numbers are gradients of the sum of the outputs, False if of a random weighting
    is_of_sum: bool = False


def locate_error(call: CheckedCall, at: int, cotangent: Any, gradients: Sequence[Any]) -> Wrong | None:
    """Describe the error of the gradient for one input; None if no element is wrong by a relevant amount."""
    value, gradient = call.values[at], gradients[at]
    chosen = range(value.size) if value.size <= MOST else _sample(call, at, cotangent, gradient)
    elements = [_element(call, at, cotangent, gradient, place) for place in chosen]
    off = [element for element in elements if element.is_off]
    if not off:
        return None
    analytic = numpy.array([element.analytic for element in elements])
    numeric = numpy.array([element.numeric for element in elements])
    real = float(numpy.linalg.norm(numeric))
    error = float(numpy.linalg.norm(analytic - numeric)) / real if real else float("inf")
    whole = len(elements) == value.size
    looks = _looks(call, at, elements, off, numeric if whole else None, gradient)
    like = None if looks or not whole else _meant_for(call, at, cotangent, gradients)
    outputs = _through(call, at, cotangent)
    summed = _of_sum(call, at, cotangent, off[:SHOWN])
    shown = summed or tuple(off[:SHOWN])
    return Wrong(
        call.inputs[at],
        error,
        looks,
        shown,
        len(off),
        len(elements),
        value.size,
        like,
        outputs,
        is_of_sum=bool(summed),
    )


def _of_sum(call: CheckedCall, at: int, cotangent: Any, off: Sequence[Element]) -> tuple[Element, ...]:
    # Return the wrong elements as gradients of the sum of the outputs, which the user can reproduce easily. Empty if
    # some outputs are not checked or are complex, or if these gradients are not all wrong.
    if not cotangent.all() or any(map(numpy.iscomplexobj, call.outputs)):
        return ()
    ones = numpy.ones_like(cotangent)
    gradient = call.pull(ones)[at]
    places = [int(numpy.ravel_multi_index(element.index, gradient.shape)) if element.index else 0 for element in off]
    found = tuple(_element(call, at, ones, gradient, place) for place in places)
    return found if all(element.is_off for element in found) else ()


def _element(call: CheckedCall, at: int, cotangent: Any, gradient: Any, place: int) -> Element:
    value = call.values[at]
    index = tuple(int(step) for step in numpy.unravel_index(place, value.shape))
    size, noise = float(call.steps[at][index]) or 1.0, 0.0
    numeric: complex = 0.0
    for unit in (1.0, 1j) if numpy.iscomplexobj(value) else (1.0,):
        direction = numpy.zeros_like(value)
        direction[index] = unit * size
        compared = call.compare(call.slope(at, direction), cotangent, gradient, direction)
        numeric += unit * compared.numeric / size
        noise = max(noise, compared.noise / size)
    return Element(index, gradient[index].item(), numeric, noise)


def _sample(call: CheckedCall, at: int, cotangent: Any, gradient: Any) -> list[int]:
    # Return a random sample of elements, and the element that ``_search`` finds. The sample is smaller if the call has
    # many outputs, because each comparison then takes longer.
    count = max(FEWEST, min(MOST // 2, NUMBERS // len(call.at_rest)))
    places = call.random.choice(call.values[at].size, count, replace=False)
    return sorted({*map(int, places), _search(call, at, cotangent, gradient)})


def _search(call: CheckedCall, at: int, cotangent: Any, gradient: Any) -> int:
    # Find a wrong element by repeatedly choosing the half of the elements with the larger error.
    first, last = 0, call.values[at].size
    direction = call.direction(at).reshape(-1)

    def gap(end: int) -> float:
        part = numpy.zeros_like(direction)
        part[first:end] = direction[first:end]
        part = part.reshape(gradient.shape)
        compared = call.compare(call.slope(at, part), cotangent, gradient, part)
        return compared.analytic - compared.numeric

    whole = gap(last)
    while last - first > 1:
        middle = (first + last) // 2
        half = gap(middle)
        if abs(half) >= abs(whole - half):
            last, whole = middle, half
        else:
            first, whole = middle, whole - half
    return first


def _through(call: CheckedCall, at: int, cotangent: Any) -> tuple[int, ...]:
    # The outputs through which the gradient is wrong; empty if it is wrong through all of them, or there is only one.
    parts = call.unflat(cotangent)
    if len(parts) == 1:
        return ()
    direction = call.direction(at)
    found = call.slope(at, direction)
    wrong = []
    for output in range(len(parts)):
        alone = flat([part * (place == output) for place, part in enumerate(parts)])
        if call.compare(found, alone, call.pull(alone)[at], direction).differs:
            wrong.append(output)
    return () if len(wrong) == len(parts) else tuple(wrong)


# Functions for the pattern of the wrong elements.


def _looks(
    call: CheckedCall, at: int, elements: Sequence[Element], off: Sequence[Element], numeric: Any, gradient: Any
) -> tuple[Reason, ...]:
    # Return the kinds of error that the gradient shows. If it is wrong for only one sign of the input, that comes
    # first.
    looks = _everywhere(off)
    if len(off) < len(elements):
        sign = _sign(call.values[at], elements, off)
        looks = (Reason("one_sign", {"sign": sign}), *looks) if sign else ()
    return looks if looks or numeric is None else _rearranged(gradient, numeric.reshape(gradient.shape))


def _sign(value: Any, elements: Sequence[Element], off: Sequence[Element]) -> str:
    # The sign of the input if the gradient is wrong for only that sign; empty otherwise.
    if len(off) < 2 or numpy.iscomplexobj(value):
        return ""
    signs = {numpy.sign(value[element.index]) for element in off}
    others = {numpy.sign(value[element.index]) for element in elements if not element.is_off}
    return {-1.0: "negative", 1.0: "positive"}.get(signs.pop(), "") if len(signs) == 1 and not signs & others else ""


def _everywhere(off: Sequence[Element]) -> tuple[Reason, ...]:
    # Return a pattern that all wrong elements share, such as a constant ratio to the right value, if there is one.
    if all(element.analytic == 0 for element in off):
        return (Reason("zero"),)
    if all(abs(element.numeric) <= TRUSTED * element.noise for element in off):
        return (Reason("nothing_moves"),)
    if any(element.numeric == 0 for element in off):
        return ()
    ratios = numpy.array([element.analytic / element.numeric for element in off])
    ratio = ratios.mean()
    if abs(ratios - ratio).max() > ALIKE * abs(ratio):
        return ()
    if abs(ratio + 1) < ALIKE:
        return (Reason("opposite"),)
    return (Reason("multiple", {"ratio": f"{ratio.real:.6g}" if abs(ratio.imag) < ALIKE else f"({ratio:.4g})"}),)


def _rearranged(analytic: Any, numeric: Any) -> tuple[Reason, ...]:
    # Return the reason if the elements are right, but transposed or in another order.
    if _same(analytic, numeric):
        return ()
    is_square = analytic.ndim >= 2 and analytic.shape[-1] == analytic.shape[-2]
    if is_square and _same(analytic, numpy.swapaxes(numeric, -1, -2)):
        return (Reason("transpose"),)
    is_reordered = _same(numpy.sort(analytic.reshape(-1)), numpy.sort(numeric.reshape(-1)))
    return (Reason("reordered"),) if is_reordered else ()


def _meant_for(call: CheckedCall, at: int, cotangent: Any, gradients: Sequence[Any]) -> Input | None:
    # Return another input for which this gradient would be the right one; None if there is none.
    analytic = gradients[at]
    for other, gradient in enumerate(gradients):
        if other != at and gradient.shape == analytic.shape:
            real = [_element(call, other, cotangent, gradient, place).numeric for place in range(analytic.size)]
            if _same(analytic, numpy.array(real).reshape(analytic.shape)):
                return call.inputs[other]
    return None


def _same(one: Any, other: Any) -> bool:
    return float(numpy.linalg.norm(flat([one]) - flat([other]))) <= ALIKE * float(numpy.linalg.norm(flat([other])))
