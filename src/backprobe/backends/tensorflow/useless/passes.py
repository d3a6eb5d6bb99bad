"""The gradients that come to each Variable, iteration after iteration, and where they come to nothing.

What is computed from the Variables to which exactly 0 came before, or far less than to the others, is kept in the next
iteration, and gone through once more. In the first iteration, all that a small program computes is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import tensorflow as tf

from backprobe.backends.tensorflow.tensors import identity, is_eager, variable_of
from backprobe.backends.tensorflow.useless.operations import Operations
from backprobe.backends.tensorflow.useless.replay import Ending, Replay

FAR_BELOW = 1e-4
"""Of the largest number of all Variables: what comes to one is looked at further if it is below that."""
SMALL = 1e-7
"""Or below this."""


@dataclass
class Leaf:
    """What came to a Variable, over the iterations in which a pass came to it."""

    source: Any  # itself, as the program asked for its gradient
    largest: float = -1.0  # of its numbers in this iteration, whatever their sign
    iterations: int = 0  # before this one in which a pass came to it
    was_zero: bool = True  # in all of these
    was_small: bool = True  # far below the others, in all of these

    @property
    def is_suspicious(self) -> bool:
        return self.iterations > 0 and (self.was_zero or self.was_small)


class Passes:
    """The passes of all iterations, and the Variables that they came to, by number."""

    def __init__(self) -> None:
        self.leaves: dict[int, Leaf] = {}
        self.endings: dict[int, list[set[Ending]]] = defaultdict(list)  # of each pass of this iteration
        self.targets: set[int] = set()  # of this iteration
        self.iterations = 0  # in which a pass came to any

    def suspicious(self) -> list[int] | None:
        """The Variables that are looked at further in this iteration, by number; None for all in the first."""
        if not self.iterations:
            return None
        return [number for number, known in self.leaves.items() if known.is_suspicious]

    @property
    def has_zero(self) -> bool:
        """Has exactly 0 come to a Variable, in all iterations so far?"""
        return any(map(self.is_zero, self.leaves))

    def gave(self, targets: Mapping[int, Any], came: Sequence[tuple[Any, Any]], operations: Operations) -> None:
        """A tape has given gradients of targets, whose own are given with their numbers."""
        self.targets.update(targets)
        given = {}
        for source, gradient in came:
            variable = variable_of(source)
            if variable is not None and variable.trainable and gradient is not None:
                known = self.leaves.setdefault(identity(source), Leaf(source))
                given[identity(source)] = largest = _largest(gradient)
                known.largest = max(known.largest, largest)
        limit = _limit([*given.values()])
        wanted = [number for number, largest in given.items()
                  if number in operations.suspicious or (operations.is_whole and largest <= limit)]  # fmt: skip
        if wanted and operations.recorded:
            back = Replay(operations.recorded, targets, wanted, operations.is_trained)
            for number in wanted:
                self.endings[number].append(back.endings(number))
        elif wanted:
            self.endings.update({number: [set()] for number in wanted})

    def found(self) -> dict[int, set[Ending]]:
        """The iteration is over. By number of a Variable: where its gradients came to nothing, in every pass of it."""
        came = {number: known for number, known in self.leaves.items() if known.largest >= 0}
        found = {number: each[0].union(*each) for number, each in self.endings.items() if all(each)}
        self.iterations += bool(came)
        self._advance(came.values())
        self.endings.clear()
        self.targets.clear()
        return {number: each for number, each in found.items() if number in came}

    def is_zero(self, number: int) -> bool:
        """Was exactly 0 all that came to a Variable, in each iteration so far?"""
        known = self.leaves.get(number)
        return known is not None and known.iterations == self.iterations and known.was_zero

    def _advance(self, came: Collection[Leaf]) -> None:
        limit = _limit([known.largest for known in came])
        for known in came:
            known.was_zero &= known.largest == 0
            known.was_small &= known.largest <= limit
            known.iterations += 1
            known.largest = -1.0


def _limit(measured: Sequence[float]) -> float:
    # What is at most this is looked at further.
    return max(FAR_BELOW * max(measured, default=0.0), SMALL)


def _largest(gradient: Any) -> float:
    # Of its numbers, whatever their sign: 0 where it is 0 everywhere, or has none.
    held = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
    if not is_eager(held):
        return float("inf")
    numbers = held.numpy()
    return float(numpy.abs(numbers).max()) if numbers.size else 0.0
