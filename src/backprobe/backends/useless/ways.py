"""The path of gradients that vanish in backward: exactly 0 at one operation, or cancelled.

A backend goes backward through the steps of a program, and reports the gradient that each operand received. This file
has the rules for evaluating these gradients. Any hashable object can be a value or a step.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import Any, Generic, TypeVar

from backprobe.backends.useless import CANCELS, COARSE, COARSE_ELEMENTS, COARSE_ROUNDING, End, by_operation
from backprobe.record.graph import reached
from backprobe.record.reasons import Note
from backprobe.record.source import Source

FAINT = 1e-3
"""An operation that passes on at most this share of the received gradient is tested with other numbers."""
ROUNDING = 64
"""Contributions cancel if their sum is at most this many units of rounding times the sum of their norms.

In healthy trainings the sum is above 5e5 such units: see docs/useless.md.
"""
BY_CHANCE = "trained"
"""A reason for 0 that is not reported: a trained factor happens to be 0, or the parts of one sum cancel."""

Value = TypeVar("Value", bound=Hashable)
Step = TypeVar("Step", bound=Hashable)
Key = TypeVar("Key", bound=Hashable)


def is_rounding(left: float, unit: float, norms: float) -> bool:
    """Is the remaining norm ``left`` at most the rounding error of numbers with these norms, in a dtype with this unit?

    >>> is_rounding(1e-7, 1.2e-7, 1.0), is_rounding(1e-2, 1.2e-7, 1.0)
    (True, False)
    """
    return left <= (ROUNDING if unit < COARSE else COARSE_ROUNDING) * unit * norms


class Sum:
    """The sum of the contributions to the gradient of one value.

    ``norm`` and ``unit`` are functions of the framework: the norm of an array, and the rounding unit of its dtype.
    ``left`` is the number of contributions still to come, if known; the sum is released after the last one.
    ``is_exact`` means that the sum only counts as cancelled if it is exactly 0.
    """

    def __init__(
        self, norm: Callable[[Any], float], unit: Callable[[Any], float], left: int = -1, is_exact: bool = False
    ) -> None:
        self.norm, self.unit, self.left, self.is_exact = norm, unit, left, is_exact
        self.total: Any = None
        self.norms = 0.0
        self.count = 0
        self.last = -1  # the position in the program of the last step that contributed
        self.is_over = False

    def add(self, gradient: Any, order: int) -> None:
        self.total = gradient if self.total is None else self.total + gradient
        self.norms += self.norm(gradient)
        self.count += 1
        self.last = max(self.last, order)

    def end(self) -> None:
        """Note that one of the expected contributions has arrived or is known to be missing."""
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
    """Return the one end that is reported for a leaf. Return None if there are no ends, or if one of them occurs by
    chance.

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
    """Yield a note for each operation at which the gradients of some of these leaves vanish.

    ``leaves`` are the leaves with their ends. ``is_zero`` says whether the gradient of a leaf was exactly 0 in each of
    these iterations. This is required, unless contributions cancel.
    """
    ended = [(leaf, end) for leaf, ends in leaves if (end := decisive(ends)) is not None]
    ended = [(leaf, replace(end, place=line(end), is_zero=is_zero(leaf))) for leaf, end in ended]
    reported = [(name(leaf), end) for leaf, end in ended if end.code == CANCELS or end.is_zero]
    yield from by_operation(reported, iterations=iterations)


class Ways(ABC, Generic[Value, Step]):
    """One backward pass, as a backend has observed it. A step sends a gradient to each of its operands, which have
    numbered places. The gradient of an operand goes to the value that is the operand.
    """

    @property
    @abstractmethod
    def cancelled(self) -> Collection[Value]:
        """The values at which the incoming gradients cancel."""

    @property
    def silenced(self) -> Collection[Value]:
        """The values of which a hook of the program has made the incoming gradient 0."""
        return ()

    @abstractmethod
    def maker(self, value: Value) -> Step | None:
        """Return the step that computed a value; None for a value that no observed step computed."""

    @abstractmethod
    def made(self, step: Step) -> Iterable[Value]:
        """Return the values that a step computed."""

    @abstractmethod
    def operands(self, step: Step) -> Mapping[int, tuple[Value, bool | None]]:
        """Return, by place, the values to which a step sends gradients, each with whether its gradient is 0 or
        rounding; None if that is not known.
        """

    @abstractmethod
    def has_come(self, step: Step) -> bool:
        """Did the step receive a gradient other than 0?"""

    @abstractmethod
    def why(self, step: Step, at: int) -> str:
        """Return the code of the reason why a step sends nothing to one of its operands although it received a
        gradient; "" if there is none.
        """

    @abstractmethod
    def end(self, code: str, step: Step) -> End:
        """Return the end of a path at a step, for the reason with this code."""

    @abstractmethod
    def cancelling(self, value: Value) -> End:
        """Return the end of a path at a value at which the incoming gradients cancel."""

    def silencing(self, value: Value) -> End:
        """Return the end of a path at a value of which a hook has made the gradient 0."""
        raise NotImplementedError

    def reached(self, roots: Iterable[Value]) -> set[Value]:
        """Return the values that receive a gradient from these roots, without those whose gradient is 0 or only
        rounding error.
        """
        nothing = {*self.cancelled, *self.silenced}

        def onward(value: Value) -> list[Value]:
            step = self.maker(value)
            sent = () if step is None else self.operands(step).values()
            return [one for one, is_nothing in sent if not (is_nothing or one in nothing)]

        return reached(roots, onward)

    def users(self, steps: Iterable[Step]) -> dict[Value, list[tuple[Step, int]]]:
        """Return, for each value, the steps that send a gradient to the value, with the place of the operand."""
        found: dict[Value, list[tuple[Step, int]]] = defaultdict(list)
        for step in steps:
            for at, (value, _) in self.operands(step).items():
                found[value].append((step, at))
        return found

    def ends(self, leaf: Value, users: Mapping[Value, Collection[tuple[Step, int]]]) -> set[End]:
        """Return the ends of all paths to a value along which gradients vanish."""
        cancelled, silenced, found, pending, visited = self.cancelled, self.silenced, set[End](), [leaf], {leaf}
        while pending:
            value = pending.pop()
            if value in silenced:
                found.add(self.silencing(value))
                continue
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
