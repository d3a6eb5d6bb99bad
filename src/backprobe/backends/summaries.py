"""Statistics of tensors that may be too large to copy, summed over chunks that fit into a CPU cache."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Any

from backprobe.backends.facts import Summary

CHUNK = 1 << 16  # in elements; small enough that a chunk is still in the cache when it is read for the second time
MOST_KNOWN = 65536


class RunningSummary:
    """The statistics of the chunks added so far.

    The sum of squares is stored relative to the largest scale of any chunk, so it neither overflows nor underflows, as
    in LAPACK's ``dlassq``.
    """

    def __init__(self) -> None:
        self.finite = self.nonfinite = 0
        self.largest = self.scale = self.squares = 0.0

    def add(self, finite: int, nonfinite: int, largest: float, scale: float, squares: float) -> None:
        """Add a chunk: the counts of its finite and other elements, the largest finite magnitude, and the sum of
        squares.

        ``squares`` is the sum of the squares of the finite numbers, each divided by ``scale``.
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
        """Return the statistics of all chunks, and of a number of zeros that were in no chunk."""
        finite = self.finite + zeros
        size = finite + self.nonfinite
        if not finite:
            return Summary(size, self.nonfinite, math.nan, math.nan)
        return Summary(size, self.nonfinite, self.scale * math.sqrt(self.squares / finite), self.largest)


def stride(size: int, most: int) -> int:
    """Return the step with which at most ``most`` of ``size`` elements are read. The step has no common factor with
    ``size``, so that no column is always skipped.

    >>> stride(100, 100), stride(4096, 100)
    (1, 41)
    """
    step = max(1, math.ceil(size / most))
    while math.gcd(step, size) > 1:
        step += 1
    return step


_known: dict[int, tuple[weakref.ref[Any], int, Summary | None]] = {}


def once(tensor: Any, version: int | None, summarize: Callable[[Any], Summary | None]) -> Summary | None:
    """Return the result of ``summarize``, which is remembered for the latest version of a tensor. Without a version it
    is called each time.
    """
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
