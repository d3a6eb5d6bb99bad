"""The backward path of gradients that vanish: exactly 0 at one operation, or cancelled.

A backend goes backward through the steps of a program, and reports the gradient that each operand received. These are
the rules for judging that. Any hashable object can be a value or a step.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from math import prod
from typing import Any, Generic, TypeVar

from backprobe.backends.useless import CANCELS, COARSE, COARSE_ELEMENTS, COARSE_ROUNDING, End, of_parameters
from backprobe.record.reasons import Note
from backprobe.record.source import Source

FAINT = 1e-3
"""An operation that passes on less than this share of the gradient it receives is tried with other numbers."""
ROUNDING = 64
"""Contributions cancel if their sum is at most so many units of rounding of the sum of their norms.

In healthy trainings it is above 5e5: see docs/useless.md.
"""
BY_CHANCE = "trained"
"""A reason for 0 that is not reported: a trained factor is 0 now, or the parts of one sum cancel."""

Value = TypeVar("Value", bound=Hashable)
Step = TypeVar("Step", bound=Hashable)
Key = TypeVar("Key", bound=Hashable)


def is_rounding(left: float, unit: float, norms: float) -> bool:
    """Is the norm of what is left of numbers with these norms at most their rounding, in a dtype with this unit?

    >>> is_rounding(1e-7, 1.2e-7, 1.0), is_rounding(1e-2, 1.2e-7, 1.0)
    (True, False)
    """
    return left <= (ROUNDING if unit < COARSE else COARSE_ROUNDING) * unit * norms


class Sum:
    """The contributions to the gradient of one value.

    ``norm`` and ``unit`` come from the framework: the norm of an array, and the rounding unit of its dtype. If it is
    known how many contributions are still to come (``left``), their sum is kept until the last of them. ``is_exact``
    means that the sum only cancels if nothing at all remains.
    """

    def __init__(
        self, norm: Callable[[Any], float], unit: Callable[[Any], float], left: int = -1, is_exact: bool = False
    ) -> None:
        self.norm, self.unit, self.left, self.is_exact = norm, unit, left, is_exact
        self.total: Any = None
        self.norms = 0.0
        self.count = 0
        self.last = -1  # the place in the program's order of the last step that contributed
        self.is_over = False

    def add(self, gradient: Any, order: int) -> None:
        self.total = gradient if self.total is None else self.total + gradient
        self.norms += self.norm(gradient)
        self.count += 1
        self.last = max(self.last, order)

    def end(self) -> None:
        """One of the expected contributions is over."""
        self.left -= 1
        if not self.left and self.total is not None:
            self.is_over, self.total = self.cancels, None

    @property
    def cancels(self) -> bool:
        """Is the sum of several contributions nothing but rounding?"""
        if self.total is None:
            return self.is_over
        if self.count < 2 or not self.norms or not math.isfinite(self.norms):
            return False
        if self.is_exact:
            return not self.left and prod(self.total.shape) > 1 and self.norm(self.total) == 0
        unit = self.unit(self.total)
        if unit >= COARSE and prod(self.total.shape) < COARSE_ELEMENTS:
            return False
        return is_rounding(self.norm(self.total), unit, self.norms)


def decisive(ends: Collection[End]) -> End | None:
    """Of all ends of one leaf, the one that is named; None where there are none, or one of them is by chance.

    >>> decisive({End("zero_flat", "clamp", 1), End("zero_flat", "relu", 2)}).operation
    'relu'
    """
    codes = {one.code for one in ends}
    if not ends or BY_CHANCE in codes:
        return None
    code = CANCELS if CANCELS in codes else max(codes)
    return max((one for one in ends if one.code == code), key=lambda one: one.order)


def notes_on_leaves(
    leaves: Iterable[tuple[Key, Collection[End]]],
    is_zero: Callable[[Key], bool],
    name: Callable[[Key], str],
    line: Callable[[End], Source | None],
    iterations: int,
) -> Iterator[Note]:
    """The notes on leaves with these ends, one for each operation at which some come to nothing.

    ``is_zero`` says of a leaf whether exactly 0 came to it in each of so many iterations: it has to, but where what
    comes cancels to rounding.
    """
    places: dict[tuple[str, str, Source | None, bool], list[Key]] = defaultdict(list)
    for leaf, ends in leaves:
        end = decisive(ends)
        if end is not None and (end.code == CANCELS or is_zero(leaf)):
            places[end.code, end.operation, line(end), end.is_constant].append(leaf)
    for (code, operation, at, is_constant), those in places.items():
        all_zero = all(map(is_zero, those))
        yield of_parameters(code, [*map(name, those)], operation, at, iterations, is_constant, is_zero=all_zero)


class Ways(ABC, Generic[Value, Step]):
    """One backward pass, as a backend has seen it. A step sends gradients to its operands, which are numbered places;
    each of them goes to the value that is the operand.
    """

    @property
    @abstractmethod
    def cancelled(self) -> Collection[Value]:
        """The values at which the incoming gradients cancel."""

    @abstractmethod
    def maker(self, value: Value) -> Step | None:
        """The step that computed a value."""

    @abstractmethod
    def made(self, step: Step) -> Iterable[Value]:
        """The values that a step computed."""

    @abstractmethod
    def operands(self, step: Step) -> Mapping[int, tuple[Value, bool | None]]:
        """By place, the values to which a step sends gradients, each with whether what it sends is 0 or rounding; None
        if that is not known.
        """

    @abstractmethod
    def has_come(self, step: Step) -> bool:
        """Did a step receive any gradient that is not 0?"""

    @abstractmethod
    def why(self, step: Step, at: int) -> str:
        """The code of the reason why a step sends nothing to one of its operands, though it received a gradient; "" for
        none.
        """

    @abstractmethod
    def end(self, code: str, step: Step) -> End:
        """The end of a path at a step, for the reason with this code."""

    @abstractmethod
    def cancelling(self, value: Value) -> End:
        """The end of a path at a value at which the incoming gradients cancel."""

    def reached(self, roots: Iterable[Value]) -> set[Value]:
        """The values that receive from these roots a gradient that is neither 0 nor rounding."""
        cancelled, pending = self.cancelled, [*roots]
        found = set(pending)
        while pending:
            step = self.maker(pending.pop())
            for value, is_nothing in () if step is None else self.operands(step).values():
                if not (is_nothing or value in found or value in cancelled):
                    found.add(value)
                    pending.append(value)
        return found

    def users(self, steps: Iterable[Step]) -> dict[Value, list[tuple[Step, int]]]:
        """For each value, those of the steps, with the place, that send a gradient to it."""
        found: dict[Value, list[tuple[Step, int]]] = defaultdict(list)
        for step in steps:
            for at, (value, _) in self.operands(step).items():
                found[value].append((step, at))
        return found

    def ends(self, leaf: Value, users: Mapping[Value, Collection[tuple[Step, int]]]) -> set[End]:
        """The ends of all paths to a value on which the gradients vanish."""
        cancelled, found, pending, visited = self.cancelled, set[End](), [leaf], {leaf}
        while pending:
            value = pending.pop()
            if value in cancelled:
                found.add(self.cancelling(value))
                continue
            for step, at in users.get(value, ()):
                is_nothing = self.operands(step)[at][1]
                if is_nothing is None:
                    continue
                if is_nothing and self.has_come(step):
                    code = self.why(step, at)
                    found.update([self.end(code, step)] if code else ())
                    continue
                new = {*self.made(step)} - visited
                visited |= new
                pending += new
        return found
