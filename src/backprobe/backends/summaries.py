"""Statistics of tensors that may be too large to copy, summed over chunks that fit into a cache."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Any

from backprobe.backends.facts import Summary

CHUNK = 1 << 16  # in elements: a chunk that was read once is still in the cache when it is read again
MOST_KNOWN = 65536


class RunningSummary:
    """The statistics of the chunks so far.

    The sum of squares is kept relative to the largest scale of any chunk, so that it neither overflows nor vanishes, as
    in LAPACK's ``dlassq``.
    """

    def __init__(self) -> None:
        self.finite = self.nonfinite = 0
        self.largest = self.scale = self.squares = 0.0

    def add(self, finite: int, nonfinite: int, largest: float, scale: float, squares: float) -> None:
        """Add a chunk: the numbers of its finite and other elements, the largest finite magnitude, and the sum of
        squares.

        ``squares`` is the sum over the numbers divided by ``scale``.
        """
        self.finite += finite
        self.nonfinite += nonfinite
        self.largest = max(self.largest, largest)
        if scale > self.scale:
            self.squares *= (self.scale / scale) ** 2
            self.scale = scale
        if squares:
            self.squares += squares * (scale / self.scale) ** 2

    def summary(self, zeros: int = 0) -> Summary:
        """The statistics of all chunks, plus a number of zeros that were in none."""
        finite = self.finite + zeros
        size = finite + self.nonfinite
        if not finite:
            return Summary(size, self.nonfinite, math.nan, math.nan)
        return Summary(size, self.nonfinite, self.scale * math.sqrt(self.squares / finite), self.largest)


def stride(size: int, most: int) -> int:
    """The step by which at most ``most`` of so many elements are read, prime to their number: no column is skipped.

    >>> stride(100, 100), stride(4096, 100)
    (1, 41)
    """
    step = max(1, math.ceil(size / most))
    while math.gcd(step, size) > 1:
        step += 1
    return step


_known: dict[int, tuple[weakref.ref[Any], int, Summary | None]] = {}


def once(tensor: Any, version: int | None, summarize: Callable[[Any], Summary | None]) -> Summary | None:
    """The summary of a tensor, computed once for each version; if it has no version, each time."""
    if version is None:
        return summarize(tensor)
    found = _known.get(id(tensor))
    if found is not None and found[0]() is tensor and found[1] == version:
        return found[2]
    made = summarize(tensor)
    if len(_known) >= MOST_KNOWN:
        _known.clear()
    key = id(tensor)
    _known[key] = weakref.ref(tensor, lambda _: _known.pop(key, None)), version, made
    return made
