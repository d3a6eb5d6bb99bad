"""The gradients of each trained leaf of a program, iteration after iteration."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from backprobe.backends.useless import FAR_BELOW, far_below

NOTHING = -1.0
"""Marks a leaf that no pass of an iteration has reached yet, in place of its largest number."""

Key = TypeVar("Key", bound=Hashable)


@dataclass
class LeafGradients:
    """What came to a leaf, over the iterations in which a pass reached it."""

    held: Any  # the leaf itself, as the backend keeps it
    far_below: float = FAR_BELOW  # times the largest number of all: a gradient below that is examined further
    largest: float = NOTHING  # magnitude of its numbers in this iteration
    iterations: int = 0  # earlier ones in which a pass reached it
    was_zero: bool = True  # in all of these
    was_small: bool = True  # far below the others, in all of these

    @property
    def is_suspicious(self) -> bool:
        return self.iterations > 0 and (self.was_zero or self.was_small)


class Leaves(Generic[Key]):
    """The leaves of one program, by the backend's keys; anything up to ``small`` is far below the others."""

    def __init__(self, small: float = 0.0) -> None:
        self.known: dict[Key, LeafGradients] = {}
        self.small = small
        self.iterations = 0  # so far, in which a pass reached any leaf

    def came(self, key: Key, held: Any, largest: float, unit: float) -> None:
        """A leaf received a gradient, with this largest number, in a dtype with this rounding unit."""
        known = self.known.setdefault(key, LeafGradients(held, far_below(unit)))
        known.largest = max(known.largest, largest)

    def reached(self) -> set[Key]:
        """The leaves that a pass has reached in this iteration."""
        return {key for key, known in self.known.items() if known.largest > NOTHING}

    def faint(self, largest: Mapping[Key, float]) -> set[Key]:
        """Of leaves with these largest numbers, those far below the others."""
        most = max(largest.values(), default=0.0)
        return {key for key, one in largest.items() if one <= max(self.known[key].far_below * most, self.small)}

    def end_iteration(self) -> None:
        """The iteration is over."""
        reached = {key: self.known[key] for key in self.reached()}
        faint = self.faint({key: known.largest for key, known in reached.items()})
        self.iterations += bool(reached)
        for key, known in reached.items():
            known.was_zero &= known.largest == 0
            known.was_small &= key in faint
            known.iterations += 1
            known.largest = NOTHING

    def is_zero(self, key: Key) -> bool:
        """Was everything that came to a leaf exactly 0, in each iteration so far?"""
        known = self.known.get(key)
        return known is not None and known.iterations == self.iterations and known.was_zero
