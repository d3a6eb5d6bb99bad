"""Where a derivative is wrong, and how: elements of its gradient one by one, against differences of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from backprobe.check.differences import TRUSTED
from backprobe.check.judge import MATTERS, Judge, flat

MOST = 144  # elements that are looked at one by one; of a larger input a sample of them
FEWEST, NUMBERS = 8, 2**19  # of such a sample; and of outputs that are looked at for it together
SHOWN = 3
ALIKE = 1e-4  # of ratios that count as one


@dataclass(frozen=True)
class Element:
    """One element of an input: what its gradient is said to be, and what differences give."""

    index: tuple[int, ...]
    said: complex
    done: complex
    noise: float

    @property
    def is_off(self) -> bool:
        matters = MATTERS * max(abs(self.said), abs(self.done))
        return not abs(self.said - self.done) <= max(TRUSTED * self.noise, matters)


@dataclass(frozen=True)
class Wrong:
    """A gradient that is wrong towards one input, None if towards all: how far, where, and what it looks like.

    ``error`` is the norm of what is off against the norm of what differences give, over the elements looked at; it is
    infinite where these give zero.
    """

    input: int | None
    error: float
    looks: str
    off: tuple[Element, ...]  # some of them
    count: int  # of those that are off, among those seen
    seen: int
    size: int
    like: int | None = None  # the input that should get this gradient
    outputs: tuple[int, ...] = ()  # through which of several outputs it is wrong, where not through all


def narrow(judge: Judge, at: int, cotangent: Any, gradients: Sequence[Any]) -> Wrong | None:
    """What is wrong with the gradient towards one input; None where no element of it is off by what matters."""
    value, gradient = judge.values[at], gradients[at]
    chosen = range(value.size) if value.size <= MOST else _sample(judge, at, cotangent, gradient)
    elements = [_element(judge, at, cotangent, gradient, place) for place in chosen]
    off = [element for element in elements if element.is_off]
    if not off:
        return None
    said = numpy.array([element.said for element in elements])
    done = numpy.array([element.done for element in elements])
    real = float(numpy.linalg.norm(done))
    error = float(numpy.linalg.norm(said - done)) / real if real else float("inf")
    whole = len(elements) == value.size
    looks = _looks(judge, at, elements, off, done if whole else None, gradient)
    like = None if looks or not whole else _meant_for(judge, at, cotangent, gradients)
    return Wrong(
        at, error, looks, tuple(off[:SHOWN]), len(off), len(elements), value.size, like, _through(judge, at, cotangent)
    )


def _element(judge: Judge, at: int, cotangent: Any, gradient: Any, place: int) -> Element:
    value = judge.values[at]
    index = tuple(int(step) for step in numpy.unravel_index(place, value.shape))
    found = [_along(judge, at, cotangent, index, unit) for unit in ((1.0, 1j) if numpy.iscomplexobj(value) else (1.0,))]
    done = complex(found[0][0], found[1][0]) if len(found) > 1 else found[0][0]
    said = gradient[index].item()
    return Element(index, said, done, max(noise for _, noise in found))


def _along(judge: Judge, at: int, cotangent: Any, index: tuple[int, ...], unit: complex) -> tuple[float, float]:
    """The derivative of what the cotangent makes of the outputs towards one element, and its noise."""
    size = float(judge.steps[at][index]) or 1.0
    direction = numpy.zeros_like(judge.values[at])
    direction[index] = unit * size
    found = judge.slope(at, direction)
    seen = cotangent != 0
    terms = cotangent[seen] * found.value[seen]
    noise = float(numpy.linalg.norm(cotangent[seen] * found.error[seen]))
    rounding = judge.epsilon * float(abs(terms).sum())
    return float(terms.sum()) / size, (noise + rounding) / size


def _sample(judge: Judge, at: int, cotangent: Any, gradient: Any) -> list[int]:
    """Some elements at random, the fewer the longer each takes, and one that is found to be off."""
    count = max(FEWEST, min(MOST // 2, NUMBERS // len(judge.at_rest)))
    places = judge.random.choice(judge.values[at].size, count, replace=False)
    return sorted({*map(int, places), _search(judge, at, cotangent, gradient)})


def _search(judge: Judge, at: int, cotangent: Any, gradient: Any) -> int:
    """One element that is off: of each two halves the one that is farther off."""
    first, last = 0, judge.values[at].size
    direction = judge.direction(at).reshape(-1)

    def gap(end: int) -> float:
        part = numpy.zeros_like(direction)
        part[first:end] = direction[first:end]
        part = part.reshape(gradient.shape)
        compared = judge.compare(judge.slope(at, part), cotangent, gradient, part)
        return compared.said - compared.done

    whole = gap(last)
    while last - first > 1:
        middle = (first + last) // 2
        half = gap(middle)
        if abs(half) >= abs(whole - half):
            last, whole = middle, half
        else:
            first, whole = middle, whole - half
    return first


def _through(judge: Judge, at: int, cotangent: Any) -> tuple[int, ...]:
    """The outputs through which the gradient is wrong; none where it is so through all of them."""
    parts = judge.parts()
    if len(parts) == 1:
        return ()
    direction = judge.direction(at)
    found = judge.slope(at, direction)
    wrong = []
    for output, part in enumerate(parts):
        alone = numpy.where(part, cotangent, 0.0)
        if judge.compare(found, alone, judge.pull(alone)[at], direction).differs:
            wrong.append(output)
    return () if len(wrong) == len(parts) else tuple(wrong)


# what it looks like


def _looks(
    judge: Judge, at: int, elements: Sequence[Element], off: Sequence[Element], done: Any, gradient: Any
) -> str:  # fmt: skip
    """A description of the error, of kinds that are usual; empty where it is of none of them."""
    looks = _everywhere(off, done) if len(off) == len(elements) else _somewhere(judge.values[at], elements, off)
    return looks or ("" if done is None else _rearranged(gradient, done.reshape(gradient.shape)))


def _somewhere(value: Any, elements: Sequence[Element], off: Sequence[Element]) -> str:
    """Is it off where the input is of one sign?"""
    right = [element for element in elements if not element.is_off]
    if len(off) < 2 or numpy.iscomplexobj(value):
        return ""
    signs = numpy.sign([value[element.index] for element in off])
    others = numpy.sign([value[element.index] for element in right])
    for sign, word in ((-1, "negative"), (1, "positive")):
        if (signs == sign).all() and not (others == sign).any():
            return f"it is off exactly where the input is {word}" + _ratio(off, ", where it is")
    return ""


def _everywhere(off: Sequence[Element], done: Any) -> str:
    if all(element.said == 0 for element in off):
        return "it is zero, and the outputs do move"
    if all(abs(element.done) <= TRUSTED * element.noise for element in off):
        return "the outputs do not move at all"
    is_complex = done is not None and numpy.iscomplexobj(done)
    if is_complex and all(_close(element.said, complex(element.done).conjugate()) for element in off):
        return "it is the conjugate of what it should be"
    return _ratio(off, "it is")


def _ratio(off: Sequence[Element], saying: str) -> str:
    if any(element.done == 0 for element in off):
        return ""
    ratios = numpy.array([element.said / element.done for element in off])
    ratio = ratios.mean()
    if abs(ratios - ratio).max() > ALIKE * abs(ratio):
        return ""
    if abs(ratio + 1) < ALIKE:
        return f"{saying} of the opposite sign"
    if abs(ratio) < ALIKE:
        return f"{saying} zero"
    shown = f"{ratio.real:.6g}" if abs(ratio.imag) < ALIKE else f"({ratio:.4g})"
    return f"{saying} {shown} times what it should be"


def _rearranged(said: Any, done: Any) -> str:
    """Is it transposed, or in another order?"""
    if _same(said, done):
        return ""
    if said.ndim >= 2 and said.shape[-1] == said.shape[-2] and _same(said, numpy.swapaxes(done, -1, -2)):
        return "it is the transpose of what it should be"
    if said.size > 1 and _same(numpy.sort(said.reshape(-1)), numpy.sort(done.reshape(-1))):
        return "its elements are right, in another order"
    return ""


def _meant_for(judge: Judge, at: int, cotangent: Any, gradients: Sequence[Any]) -> int | None:
    """The other input for which it would be right."""
    said = gradients[at]
    for other, gradient in enumerate(gradients):
        if other != at and gradient.shape == said.shape:
            real = [_element(judge, other, cotangent, gradient, place).done for place in range(said.size)]
            if _same(said, numpy.array(real).reshape(said.shape)):
                return other
    return None


def _close(one: complex, other: complex) -> bool:
    return abs(one - other) <= ALIKE * max(abs(one), abs(other))


def _same(one: Any, other: Any) -> bool:
    return float(numpy.linalg.norm(flat([one]) - flat([other]))) <= ALIKE * float(numpy.linalg.norm(flat([other])))
