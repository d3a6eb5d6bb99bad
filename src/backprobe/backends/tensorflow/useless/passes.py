"""The gradients that arrive at each Variable in each iteration, and the places where gradients vanish.

If a Variable's gradient was exactly 0 or far smaller than the others, the operations that depend on the Variable are
recorded in the next iteration and differentiated again. In the first iteration this is done for all Variables if the
program is small.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from backprobe.backends.tensorflow.tensors import identity, is_eager, numbers_of, variable_of
from backprobe.backends.tensorflow.useless.operations import Operations
from backprobe.backends.tensorflow.useless.replay import OperationReplay, unit
from backprobe.backends.useless import End
from backprobe.backends.useless.leaves import Leaves

SMALL = 1e-5
"""If the largest number of a gradient is at most this, the gradient is examined further."""


class Passes:
    """The backward passes of all iterations, and the Variables that they reached, by number."""

    def __init__(self) -> None:
        self.leaves: Leaves[int] = Leaves(SMALL)
        # by Variable: for each pass, where the gradient vanished
        self.endings: dict[int, list[set[End]]] = defaultdict(list)
        self.targets: set[int] = set()  # the targets of this iteration

    @property
    def iterations(self) -> int:
        return self.leaves.iterations

    def suspicious(self) -> list[int] | None:
        """The Variables that are examined further in this iteration, by number. None means all, in the first
        iteration.
        """
        if not self.iterations:
            return None
        return [number for number, known in self.leaves.known.items() if known.is_suspicious]

    def gave(self, targets: Mapping[int, Any], came: Sequence[tuple[Any, Any]], operations: Operations) -> None:
        """Called when a tape has returned gradients of these targets, given by number with their initial gradients."""
        self.targets.update(targets)
        given = {}
        for source, gradient in came:
            variable = variable_of(source)
            if variable is not None and variable.trainable and gradient is not None:
                given[identity(source)] = largest = _largest(gradient)
                self.leaves.came(identity(source), source, largest, unit(variable))
        faint = self.leaves.faint(given)
        wanted = [
            number for number in given if number in operations.suspicious or (operations.is_whole and number in faint)
        ]
        if wanted and operations.recorded:
            back = OperationReplay(operations.recorded, targets, wanted, operations.is_trained)
            for number in wanted:
                self.endings[number].append(back.endings(number))
        elif wanted:
            self.endings.update({number: [set()] for number in wanted})

    def found(self) -> dict[int, set[End]]:
        """End the iteration. Return the Variables whose gradients vanished in every pass, by number, each with the
        places where that happened.
        """
        came = self.leaves.reached()
        found = {number: each[0].union(*each) for number, each in self.endings.items() if all(each)}
        self.leaves.end_iteration()
        self.endings.clear()
        self.targets.clear()
        return {number: each for number, each in found.items() if number in came}


def _largest(gradient: Any) -> float:
    # Return the largest magnitude in a gradient; 0 if the gradient is empty, infinity if it has no numbers yet.
    held = numbers_of(gradient)
    if not is_eager(held):
        return float("inf")
    numbers = held.numpy()
    return float(numpy.abs(numbers).max()) if numbers.size else 0.0
