"""The requested rows of a file: those that exist in it, and their places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy
from numpy.typing import NDArray


@dataclass(frozen=True)
class ChosenRows:
    """The requested rows that exist in an attempt: their places in the result and their places in the attempt."""

    to: NDArray[numpy.int64]
    places: NDArray[numpy.int64]

    @classmethod
    def of(cls, keys: Sequence[tuple[str, str]], places: Mapping[tuple[str, str], int]) -> ChosenRows:
        known = [(to, places[key]) for to, key in enumerate(keys) if key in places]
        return cls(*numpy.array(known, numpy.int64).reshape(-1, 2).T)

    def below(self, height: int) -> ChosenRows:
        """Return only the rows that exist in a step of ``height`` rows."""
        if not len(self.places) or self.places.max() < height:
            return self
        there = self.places < height
        return ChosenRows(self.to[there], self.places[there])

    @cached_property
    def regular(self) -> tuple[Any, Any]:
        """Both index arrays, as slices where possible, because slicing makes no copy."""
        return regular_places(self.to), regular_places(self.places)


def regular_places(numbers: NDArray[numpy.int64]) -> Any:
    """The numbers as a slice, if the distance between neighbours is constant and positive; otherwise unchanged."""
    step = int(numbers[1] - numbers[0]) if len(numbers) > 1 else 1
    if not len(numbers) or step < 1 or (numpy.diff(numbers) != step).any():
        return numbers
    return slice(int(numbers[0]), int(numbers[-1]) + 1, step)
