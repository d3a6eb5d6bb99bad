"""Detects steps that change next to nothing, for example because the learning rate is below the rounding of the
dtype, and steps that find no gradient.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from backprobe.backends.useless import step_without_effect, step_without_gradient
from backprobe.record.reasons import Note
from backprobe.record.source import Source

SAMPLE = 4096
"""The number of elements of each parameter that are compared."""
LEAST = 0.01
"""A step has no effect if it changes less than this share of the elements that have a gradient."""


def spread(size: int) -> slice:
    """Return a slice that selects about ``SAMPLE`` evenly spread elements from ``size`` elements."""
    return slice(None, None, max(1, size // SAMPLE))


@dataclass(frozen=True)
class SampledStep:
    """One step: how many of the sampled elements have a gradient, and how many of these the step changed."""

    rate: float
    moved: int
    count: int
    dtype: str
    at: Source | None

    @property
    def share(self) -> float:
        return self.moved / self.count if self.count else 1.0

    @property
    def has_no_effect(self) -> bool:
        return self.count > 0 and self.share < LEAST


class SampledSteps:
    """The steps made so far, by optimizer."""

    def __init__(self) -> None:
        self.steps: MutableMapping[Any, list[SampledStep]] = WeakKeyDictionary()
        # by optimizer, the lines of its steps without a gradient; ``fed`` has the optimizers that ever had a gradient
        self.without: MutableMapping[Any, list[Source | None]] = WeakKeyDictionary()
        self.fed: WeakSet[Any] = WeakSet()

    def made(self, optimizer: Hashable, step: SampledStep) -> None:
        self.steps.setdefault(optimizer, []).append(step)

    def without_effect(self) -> list[tuple[Any, SampledStep]]:
        """Return each optimizer whose steps had no effect, with its last step.

        The optimizer must have made at least two steps, and its steps must not grow as in a warm-up.
        """
        return [
            (optimizer, steps[-1])
            for optimizer, steps in self.steps.items()
            if len(steps) > 1 and not self.grows(steps) and all(one.has_no_effect for one in steps)
        ]

    def grows(self, steps: Sequence[SampledStep]) -> bool:
        """Do the steps become larger, as in a warm-up?"""
        return steps[-1].rate > steps[0].rate

    def without_gradient(self, count: int) -> list[tuple[Any, list[Source | None]]]:
        """Return each optimizer that has made at least this many steps, all without a gradient, with their lines."""
        return [(one, lines) for one, lines in self.without.items() if len(lines) >= count and one not in self.fed]

    def notes(self) -> Iterator[Note]:
        for optimizer, step in self.without_effect():
            yield step_without_effect(type(optimizer).__name__, step.rate, step.dtype, step.share, step.at)
        for optimizer, lines in self.without_gradient(2):
            yield step_without_gradient(type(optimizer).__name__, len(lines), lines[-1])

    @property
    def are_undecided(self) -> bool:
        """Has an optimizer made exactly one step so far, which had no effect or no gradient?"""
        if any(len(lines) == 1 for _, lines in self.without_gradient(1)):
            return True
        return any(len(steps) == 1 and steps[0].has_no_effect for steps in self.steps.values())
