"""Pairs parameters of one size by their numbers, where the order in which the programs use them is no evidence.

Three projections of one input may be computed in any order. Two layers of which one computes with the other's result
may not: these are paired in order, so that exchanged weights remain a difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from itertools import permutations
from typing import Any, TypeVar

import numpy

from backprobe.backends.discover import load_arrays
from backprobe.backends.rows import Rows, together
from backprobe.diff.matches import BY_NUMBERS
from backprobe.diff.side import Side
from backprobe.record.graph import inverted, reached

One = TypeVar("One")
FACTORS = numpy.uint64(0x9E3779B97F4A7C15), numpy.uint64(0xC2B2AE3D27D4EB4F)
"""The odd multipliers of a hash."""


class GivenLeaves:
    """The arguments and parameters of one recording: their numbers, and what is computed from them."""

    def __init__(self, side: Side) -> None:
        self.side, self.arrays = side, load_arrays(side.record.backend)
        self.digest: Callable[[int], int | None] = cache(self._digest)
        self.reached: Callable[[int], set[int]] = cache(lambda at: reached(self.uses[at], self.uses.__getitem__))

    @cached_property
    def uses(self) -> Sequence[Sequence[int]]:
        """For each entry: the entries computed directly from it."""
        into: list[set[int]] = [set() for _ in self.side.entries]
        for flow in self.side.graph.flows:
            into[flow.target].add(flow.source)
        return inverted(into)

    def _digest(self, at: int) -> int | None:
        # A hash of a leaf's numbers, rounded to bfloat16, that does not depend on their order; None without numbers.
        entry = self.side.entries[at]
        rows = self.arrays.rows(entry.held) if self.arrays.is_tensor(entry.held) else None
        if rows is None or rows.stored.dtype.kind not in "fiu" or rows.is_complex:
            return None
        return sum(_mixed(rows, x) for x, _ in together(rows, rows)) % (1 << 64)

    def is_before(self, at: int, other: int) -> bool:
        """Is a value that is computed directly from ``other``, and not directly from ``at``, computed from ``at``
        through other values?
        """
        return not self.reached(at).isdisjoint(set(self.uses[other]) - set(self.uses[at]))


def _mixed(rows: Rows, chunk: Any) -> int:
    bits = (rows.numbers(chunk).astype(numpy.float32) + numpy.float32(0)).view(numpy.uint32).astype(numpy.uint64)
    even = (bits >> numpy.uint64(16)) & numpy.uint64(1)
    mixed = ((bits + numpy.uint64(0x7FFF) + even) >> numpy.uint64(16)) * FACTORS[0]
    mixed = (mixed ^ (mixed >> numpy.uint64(29))) * FACTORS[1]
    return int((mixed ^ (mixed >> numpy.uint64(32))).sum())


def in_pairs(
    own: Sequence[One],
    others: Sequence[One],
    leaves: tuple[GivenLeaves, GivenLeaves],
    of: tuple[Callable[[One], int], Callable[[One], int]],
    how: str,
) -> list[tuple[One, One, str]]:
    """Pair equally many items by the numbers of their leaves, if ``is_before`` then orders the leaves alike in both
    programs; else in the given order.

    ``of`` gives the leaf of an item of each recording. ``how`` comes back with each pair, or ``BY_NUMBERS``.
    """
    plain = [(*pair, how) for pair in zip(own, others, strict=True)]
    if len(plain) < 2:
        return plain
    places = [[leaf(one) for one in items] for leaf, items in zip(of, (own, others), strict=True)]
    found = _order(*([side.digest(at) for at in each] for side, each in zip(leaves, places, strict=True)))
    if any(number != other for number, other in enumerate(found)) and all(
        leaves[0].is_before(places[0][one], places[0][two])
        == leaves[1].is_before(places[1][found[one]], places[1][found[two]])
        for one, two in permutations(range(len(plain)), 2)
    ):
        return [(one, others[found[number]], BY_NUMBERS) for number, one in enumerate(own)]
    return plain


def _order(own: Sequence[int | None], others: Sequence[int | None]) -> Sequence[int]:
    # For each item, the number of its partner: the item with the same digest, if only one on each side has it; else the
    # next of those that are left.
    alone = [{one for one, count in Counter(each).items() if count == 1 and one is not None} for each in (own, others)]
    both = {one: others.index(one) for one in alone[0] & alone[1]}
    left = iter([number for number, one in enumerate(others) if one not in both])
    return [both[one] if one in both else next(left) for one in own]
