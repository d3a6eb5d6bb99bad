"""Pairs settled by their numbers, where the names and conventions of two libraries do not tell.

A weight that fits either way round lies so that what is computed from it agrees. And two values of a name that differ,
while nothing of that is left in what is computed from them, are not the same value: a layer of one library has its
activation inside, and one of the other has not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from backprobe.backends.rows import Rows
from backprobe.diff.arranging import Arrangement
from backprobe.diff.comparison import Comparison
from backprobe.diff.matches import Match
from backprobe.diff.measuring import measure
from backprobe.diff.pairs import VALUE, Row
from backprobe.record.graph import reached

Names = tuple[str, str]
ALIKE = 1e-3
"""Of the error of a value, how little of it is left in all that is computed from it, where that is computed without."""


@dataclass(frozen=True)
class Settled:
    """By the names of pairs: the arrangements that the numbers show, and the pairs that are not of one value."""

    arrangements: Sequence[tuple[Names, Arrangement]] = ()
    unlike: Sequence[Names] = ()

    def __bool__(self) -> bool:
        return bool(self.arrangements or self.unlike)


def settled(comparison: Comparison) -> Settled:
    """What the numbers show; nothing of two recordings with one convention."""
    if comparison.orders.is_strict:
        return Settled()
    unlike = [names_of(comparison, comparison.rows[at].match) for at in _unlike(comparison)]
    return Settled(list(_arrangements(comparison)), unlike)


def names_of(comparison: Comparison, match: Match) -> Names:
    """The names of a pair."""
    return comparison.a.entries[match.a].name, comparison.b.entries[match.b].name


def _arrangements(comparison: Comparison) -> Iterator[tuple[Names, Arrangement]]:
    # Other arrangements of weights in which they agree, where all that is computed from them agrees, too.
    for at, row in enumerate(comparison.rows):
        if row.value.kind == VALUE and row.value.floor is not None and _is_used_right(comparison, at):
            read = comparison.read(at, comparison.held(at, "forward"))
            for one in _others(comparison, row, read):
                yield names_of(comparison, row.match), one


def _is_used_right(comparison: Comparison, at: int) -> bool:
    # Is it a parameter, and do all values that are computed from it agree?
    uses = comparison.uses(at) if comparison.is_parameter(at) else ()
    return bool(uses) and not any(comparison.rows[use].value.kind for use in uses)


def _others(comparison: Comparison, row: Row, read: tuple[Rows, Rows] | None) -> Iterator[Arrangement]:
    # The other arrangements in which the values of a pair agree.
    if read is None or row.value.floor is None:
        return
    for one in comparison.orders.fitting(row.match, (row.a, row.b), is_parameter=True, rows=read)[1:]:
        if row.value.floor.excess(measure(read[0], one.apply(read[1]))) <= 1:
            yield one


def _unlike(comparison: Comparison) -> Sequence[int]:
    # The pairs of what modules return that differ by far more than all that is computed from them, the last first.
    found: set[int] = set()
    rows = comparison.rows
    for at in reversed(comparison.order):
        match = rows[at].match
        is_returned = match.a in comparison.a.graph.unnamed_results and match.b in comparison.b.graph.unnamed_results
        if is_returned and rows[at].value.kind == VALUE:
            uses = reached(comparison.uses(at), lambda one: comparison.uses(one) if one in found else ()) - found
            error = ALIKE * _error(rows[at])
            if uses and all(_error(rows[use]) < error for use in uses):
                found.add(at)
    return sorted(found)


def _error(row: Row) -> float:
    # The relative error of a value, infinite where it has none.
    if row.value.kind not in ("", VALUE):
        return math.inf
    return 0.0 if row.value.measure is None else row.value.measure.relative
