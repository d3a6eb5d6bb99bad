"""Finds numbers that are treated as log-probabilities: one is picked from each row, and their negative mean or sum is
the loss.

They may be picked by an index, or by a product with a one-hot row. All further operations must be linear and use these
numbers alone. If another value of the same model is added, such as a logsumexp, the result is a proper loss.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Generic, TypeVar

import numpy

from backprobe.backends.useless.distributions import MOST, is_rarely
from backprobe.backends.useless.shapes import Shape

Operation = TypeVar("Operation")
Numbers = Sequence[int]


@dataclass(frozen=True)
class Pick:
    """Picked numbers times a factor, and the line that picked them, in the backend's own form."""

    place: Any
    factor: float
    is_masked: bool = False  # are the other numbers still present, multiplied by 0?


class Picks(ABC, Generic[Operation]):
    """The picks of one iteration: for each value that is computed from picked numbers alone, its ``Pick``.

    Values are identified by number. The backend provides the operands and the single result of an operation.
    """

    def __init__(self) -> None:
        self.known: dict[int, Pick] = {}

    @abstractmethod
    def given(self, one: Operation) -> Sequence[Any]:
        """Return the operands of an operation."""

    @abstractmethod
    def made(self, one: Operation) -> Any:
        """Return the result of an operation."""

    @abstractmethod
    def number(self, one: Operation) -> int:
        """Return the number that identifies the result of an operation."""

    @abstractmethod
    def place(self, one: Operation) -> Any:
        """Return the line of an operation."""

    @abstractmethod
    def is_reduction(self, one: Operation) -> bool:
        """Does the operation reduce its operand along dimensions?"""

    @abstractmethod
    def slopes(self, one: Operation, at: int) -> Any:
        """Return the gradient of the result with respect to one operand, for a cotangent of ones and in double
        precision, or None.
        """

    @abstractmethod
    def is_trained(self, number: int) -> bool:
        """Is the value with this number computed from trained values?"""

    @abstractmethod
    def is_float(self, array: Any) -> bool:
        """Can the array be differentiated?"""

    @abstractmethod
    def shape(self, array: Any) -> Shape: ...

    @abstractmethod
    def wide(self, array: Any) -> Any:
        """Return the array's numbers in double precision, as a NumPy array."""

    @abstractmethod
    def near(self, array: Any) -> float:
        """Return how far the sum of probabilities may be from 1 in the array's dtype."""

    def look(self, one: Operation, numbers: Numbers) -> None:
        """Called when an operation has run on operands with these numbers."""
        at = next((at for at, number in enumerate(numbers) if number in self.known), None)
        if at is not None:
            self._follow(one, numbers, at)
            return
        given = self.given(one)
        if len(numbers) < 2 or not self.is_float(given[0]) or not any(map(self.is_trained, numbers)):
            return
        shape, result = self.shape(given[0]), self.shape(self.made(one))
        is_fit = len(shape) > 1 and shape[-1] > 1 and 2 * shape[-1] <= prod(shape) <= MOST
        if is_fit and result in (shape[:-1], (*shape[:-1], 1)) and not self.is_reduction(one):
            self._by_index(one, numbers)
        elif is_fit and result == shape and len(numbers) == 2 and shape == self.shape(given[1]):
            self._by_mask(one, numbers)

    def _by_index(self, one: Operation, numbers: Numbers) -> None:
        first, *others = self.given(one)
        if any(map(self.is_float, others)) or not self.is_trained(numbers[0]):
            return
        x, made = self.wide(first), self.wide(self.made(one))
        is_there = made.reshape(*x.shape[:-1], 1) == x
        is_picked = bool(is_there.any(-1).all()) and len({*is_there.argmax(-1).flat}) > 1
        if is_picked and is_unnormalised(x, self.near(first)):
            self.known[self.number(one)] = Pick(self.place(one), 1.0)

    def _by_mask(self, one: Operation, numbers: Numbers) -> None:
        given = self.given(one)
        trained = [at for at, number in enumerate(numbers) if self.is_trained(number)]
        if len(trained) != 1 or not all(map(self.is_float, given)):
            return
        x, mask = given[trained[0]], self.wide(given[1 - trained[0]])
        if not ((mask == 0) | (mask == 1)).all() or (mask.sum(-1) != 1).any() or len({*mask.argmax(-1).flat}) < 2:
            return
        made, is_kept = self.wide(self.made(one)), mask == 1
        is_masked = bool((made == numpy.where(is_kept, self.wide(x), 0)).all())
        if is_masked and is_unnormalised(self.wide(x), self.near(x)):
            self.known[self.number(one)] = Pick(self.place(one), 1.0, is_masked=True)

    def _follow(self, one: Operation, numbers: Numbers, at: int) -> None:
        given, made = self.given(one), self.made(one)
        beside = [
            (number, other)
            for place, (number, other) in enumerate(zip(numbers, given, strict=True))
            if place != at and self.is_float(other)
        ]
        if any(self.is_trained(number) or prod(self.shape(other)) > 1 for number, other in beside):
            return
        known = self.known[numbers[at]]
        if known.is_masked and prod(self.shape(made)) == prod(self.shape(given[at])):
            return
        slopes = self.slopes(one, at)
        if slopes is None:
            return
        slope, far = float(slopes.flat[0]), self.near(made)
        total, result = (slopes * self.wide(given[at])).sum(), self.wide(made).sum()
        is_sum = abs(total - result) <= far * abs(total) + far
        is_shifted = slopes.size == 1 and abs(slope - 1) <= far
        if bool((abs(slopes - slope) <= far * abs(slope)).all()) and (is_sum or is_shifted):
            self.known[self.number(one)] = Pick(known.place, known.factor * slope, is_masked=False)

    def losses(self, targets: Sequence[int]) -> list[Any]:
        """Return the lines that picked numbers whose negative sum or mean is one of these targets."""
        found = [self.known[target] for target in targets if target in self.known]
        return [one.place for one in found if one.factor < 0 and not one.is_masked]


def is_unnormalised(x: Any, far: float) -> bool:
    """Are all numbers finite, and hardly any of the rows log-probabilities or probabilities?"""
    largest = x.max(-1, keepdims=True)
    sums = largest[..., 0] + numpy.log(numpy.exp(x - largest).sum(-1))
    is_any = (abs(sums) <= 10 * far) | ((x >= 0).all(-1) & (abs(x.sum(-1) - 1) <= 10 * far))
    return bool(numpy.isfinite(x).all()) and is_rarely(float(is_any.mean()), far)
