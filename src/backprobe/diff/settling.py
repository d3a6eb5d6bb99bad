"""Decides by numbers if the names and conventions of two libraries leave the pairing open.

If a weight fits in two arrangements, the one is chosen with which the values computed from it agree. So is the order
of a value's axes, such as heads before or behind the positions, also within one library. If two values with
the same name differ, but everything computed from them agrees, they are different values: for example, the layer of one
library includes its activation, and the layer of the other does not.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from backprobe.backends.rows import Rows
from backprobe.diff.arranging import Arrangement, of_axes
from backprobe.diff.comparison import Comparison
from backprobe.diff.matches import Match
from backprobe.diff.measuring import measure
from backprobe.diff.pairs import SHAPE, VALUE, Row
from backprobe.record.graph import reached

Names = tuple[str, str]
ALIKE = 1e-3
"""Two values are unlike if all values computed from them have less than this fraction of their error."""


@dataclass(frozen=True)
class Settled:
    """What the numbers decided. ``arrangements`` has pairs of weights, and ``axes`` pairs of other values, each with
    the arrangement that fits. ``unlike`` has pairs that are different values although their names match. Each pair is
    given by its two printed names.
    """

    arrangements: Sequence[tuple[Names, Arrangement]] = ()
    axes: Sequence[tuple[Names, Arrangement]] = ()
    unlike: Sequence[Names] = ()

    def __bool__(self) -> bool:
        return bool(self.arrangements or self.axes or self.unlike)


def settled(comparison: Comparison) -> Settled:
    """Return what the numbers decide; only orders of axes if both recordings have the same convention."""
    axes = {
        names_of(comparison, comparison.rows[at].match): one
        for at, one in sorted(_axes(comparison).items(), key=lambda pair: pair[0])
    }
    if comparison.orders.is_strict:
        return Settled(axes=[*axes.items()])
    unlike = [names_of(comparison, comparison.rows[at].match) for at in _unlike(comparison)]
    return Settled(list(_arrangements(comparison)), [*axes.items()], [one for one in unlike if one not in axes])


def names_of(comparison: Comparison, match: Match) -> Names:
    """The two printed names of a pair."""
    return comparison.a.entries[match.a].name, comparison.b.entries[match.b].name


def _arrangements(comparison: Comparison) -> Iterator[tuple[Names, Arrangement]]:
    # Yield other arrangements in which a weight agrees, if everything computed from the weight agrees too.
    for at, row in enumerate(comparison.rows):
        if row.value.kind == VALUE and _is_used_right(comparison, at):
            for one in _others(comparison, row, comparison.read(at, comparison.held(at, "forward"))):
                yield names_of(comparison, row.match), one


def _is_used_right(comparison: Comparison, at: int) -> bool:
    # Is the pair a parameter, and do all values computed from it agree?
    uses = comparison.uses(at) if comparison.is_parameter(at) else ()
    return bool(uses) and not any(comparison.rows[use].value.kind for use in uses)


def _others(comparison: Comparison, row: Row, read: tuple[Rows, Rows] | None) -> Iterator[Arrangement]:
    # Yield the other arrangements in which the values of a pair agree.
    if read is None or row.value.floor is None:
        return
    for one in comparison.orders.fitting(row.match, (row.a, row.b), is_parameter=True, rows=read)[1:]:
        if row.value.floor.excess(measure(read[0], one.apply(read[1]))) <= 1:
            yield one


def _axes(comparison: Comparison) -> dict[int, Arrangement]:
    # Return pairs of values that agree in another order of axes, if everything computed from them agrees as it is.
    found: dict[int, Arrangement] = {}
    for at in reversed(comparison.order):
        row = comparison.rows[at]
        if comparison.is_leaf(at) or row.value.kind not in (SHAPE, VALUE):
            continue
        uses = [comparison.rows[use] for use in _uses_beyond(comparison, at, found)]
        is_right = bool(uses) and not any(use.value.kind or _is_single(use) for use in uses)
        fitting = next(_of_equal_numbers(comparison, at), None) if is_right else None
        if fitting is not None:
            found[at] = fitting
    return found


def _is_single(row: Row) -> bool:
    # Is the value one number, such as a sum, which is the same in every order?
    return all(size == 1 for size in row.a.shape or ())


def _of_equal_numbers(comparison: Comparison, at: int) -> Iterator[Arrangement]:
    # Yield the other arrangements in which the values of a pair agree.
    read = comparison.read(at, comparison.held(at, "forward"))
    for one in () if read is None else of_axes(read[1].shape, read[0].shape):
        if read is not None and comparison.agrees(at, measure(read[0], one.apply(read[1]))):
            yield one


def _uses_beyond(comparison: Comparison, at: int, found: Container[int]) -> set[int]:
    # The nearest pairs computed from a pair, skipping those that are ``found``.
    uses = reached(comparison.uses(at), lambda one: comparison.uses(one) if one in found else ())
    return {one for one in uses if one not in found}


def _unlike(comparison: Comparison) -> Sequence[int]:
    # Return pairs of return values that differ far more than everything computed from them. Pairs that were found
    # before are skipped in what is computed from a value, so the last values come first.
    found: set[int] = set()
    rows = comparison.rows
    for at in reversed(comparison.order):
        match = rows[at].match
        is_returned = match.a in comparison.a.graph.unnamed_results and match.b in comparison.b.graph.unnamed_results
        if is_returned and rows[at].value.kind == VALUE:
            uses = _uses_beyond(comparison, at, found)
            error = ALIKE * _error(rows[at])
            if uses and all(_error(rows[use]) < error for use in uses):
                found.add(at)
    return sorted(found)


def _error(row: Row) -> float:
    # The relative error of a value; infinite if shape or dtype differ, and 0 if nothing was measured.
    if row.value.kind not in ("", VALUE):
        return math.inf
    return 0.0 if row.value.measure is None else row.value.measure.relative
