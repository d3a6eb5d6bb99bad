"""The gradients of each trained leaf of a program, in one iteration after another."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from backprobe.backends.useless import FAR_BELOW, far_below

NOTHING = -1.0
"""The value of ``largest`` for a leaf that no pass of the iteration has reached yet."""

Key = TypeVar("Key", bound=Hashable)


@dataclass
class LeafGradients:
    """The gradients that a leaf received, over the iterations in which a pass reached it."""

    held: Any  # the leaf itself, as the backend keeps it
    far_below: float = FAR_BELOW  # as a share of the largest number of all gradients
    largest: float = NOTHING  # the largest magnitude in this iteration
    iterations: int = 0  # the number of earlier iterations in which a pass reached the leaf
    was_zero: bool = True  # was the gradient 0 in all earlier iterations?
    was_small: bool = True  # was the gradient far below the others in all earlier iterations?

    @property
    def is_suspicious(self) -> bool:
        return self.iterations > 0 and (self.was_zero or self.was_small)


class Leaves(Generic[Key]):
    """The leaves of one program, by the backend's keys. A gradient up to ``small`` counts as far below the others."""

    def __init__(self, small: float = 0.0) -> None:
        self.known: dict[Key, LeafGradients] = {}
        self.small = small
        self.iterations = 0  # the number of iterations in which a pass reached any leaf

    def came(self, key: Key, held: Any, largest: float, unit: float) -> None:
        """Record a gradient of a leaf: its largest number, and the rounding unit of its dtype."""
        known = self.known.setdefault(key, LeafGradients(held, far_below(unit)))
        known.largest = max(known.largest, largest)

    def reached(self) -> set[Key]:
        """Return the leaves that a pass has reached in this iteration."""
        return {key for key, known in self.known.items() if known.largest > NOTHING}

    def faint(self, largest: Mapping[Key, float]) -> set[Key]:
        """Return the leaves whose largest numbers, given by leaf, are far below the others."""
        most = max(largest.values(), default=0.0)
        return {key for key, one in largest.items() if one <= max(self.known[key].far_below * most, self.small)}

    def end_iteration(self) -> None:
        """End the iteration, and update the facts about each leaf that was reached."""
        reached = {key: self.known[key] for key in self.reached()}
        faint = self.faint({key: known.largest for key, known in reached.items()})
        self.iterations += bool(reached)
        for key, known in reached.items():
            known.was_zero &= known.largest == 0
            known.was_small &= key in faint
            known.iterations += 1
            known.largest = NOTHING

    def is_zero(self, key: Key) -> bool:
        """Did the leaf receive gradients in each iteration in which any leaf did, and were all of them exactly 0?"""
        known = self.known.get(key)
        return known is not None and known.iterations == self.iterations and known.was_zero
