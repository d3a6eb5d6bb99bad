"""Gradients that come to each leaf of a program that is trained, iteration after iteration."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from backprobe.backends.useless import FAR_BELOW, far_below

NOTHING = -1.0
"""The largest number of a leaf that no pass of an iteration has come to yet."""

Key = TypeVar("Key", bound=Hashable)


@dataclass
class LeafGradients:
    """What came to a leaf, over the iterations in which a pass came to it."""

    held: Any  # itself, as the backend keeps it
    far_below: float = FAR_BELOW  # of the largest number of all: what is below is looked at further
    largest: float = NOTHING  # of its numbers in this iteration, whatever their sign
    iterations: int = 0  # before this one, in which a pass came to it
    was_zero: bool = True  # in all of these
    was_small: bool = True  # far below the others, in all of these

    @property
    def is_suspicious(self) -> bool:
        return self.iterations > 0 and (self.was_zero or self.was_small)


class Leaves(Generic[Key]):
    """Those of one program, by what a backend knows them by; ``small`` is far below whatever the others are."""

    def __init__(self, small: float = 0.0) -> None:
        self.known: dict[Key, LeafGradients] = {}
        self.small = small
        self.iterations = 0  # so far in which a pass came to any

    def came(self, key: Key, held: Any, largest: float, unit: float) -> None:
        """A gradient came to a leaf, with this largest number, in a dtype with this unit of rounding."""
        known = self.known.setdefault(key, LeafGradients(held, far_below(unit)))
        known.largest = max(known.largest, largest)

    def reached(self) -> set[Key]:
        """Those that a pass came to in this iteration."""
        return {key for key, known in self.known.items() if known.largest > NOTHING}

    def faint(self, largest: Mapping[Key, float]) -> set[Key]:
        """Of leaves with these largest numbers, those that are far below the others."""
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
        """Was exactly 0 all that came to a leaf, in each iteration so far?"""
        known = self.known.get(key)
        return known is not None and known.iterations == self.iterations and known.was_zero
