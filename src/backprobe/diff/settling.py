"""Decides by numbers if the names and conventions of two libraries leave the pairing open.

If a weight differs, but everything computed from it agrees, another arrangement is chosen in which the weight agrees,
too. The same holds for the order of a value's axes, such as heads before or behind the positions, also within one
library. If two return values differ far more than everything computed from them, they are different values: for
example, the layer of one library includes its activation, and the layer of the other does not.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

import numpy

from backprobe.backends.rows import Rows
from backprobe.diff.arranging import Arrangement, of_axes
from backprobe.diff.comparison import Comparison
from backprobe.diff.evidence import is_one
from backprobe.diff.likeness import LARGEST
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
    the arrangement that fits. ``unlike`` has pairs that are different values although they were matched, and
    ``undecided`` those of which nothing shows whether they are. Each pair is given by its two printed names.
    """

    arrangements: Sequence[tuple[Names, Arrangement]] = ()
    axes: Sequence[tuple[Names, Arrangement]] = ()
    unlike: Sequence[Names] = ()
    undecided: Sequence[Names] = ()

    @property
    def dropped(self) -> set[Names]:
        """The pairs that are not compared."""
        return {*self.unlike, *self.undecided}

    def __bool__(self) -> bool:
        return bool(self.arrangements or self.axes or self.unlike or self.undecided)


def settled(comparison: Comparison) -> Settled:
    """Return what the numbers decide. If both recordings have the same convention, only orders of axes are decided."""
    found, is_open = _axes(comparison)
    axes = [(_names(comparison, at), found[at]) for at in sorted(found)]
    if comparison.orders.is_strict:
        return Settled(axes=axes, undecided=[_names(comparison, at) for at in sorted(is_open)])
    unlike, more = _unlike(comparison)
    return Settled(
        list(_arrangements(comparison)),
        axes,
        [_names(comparison, at) for at in sorted(unlike - found.keys())],
        [_names(comparison, at) for at in sorted((is_open | more) - found.keys() - unlike)],
    )


def _names(comparison: Comparison, at: int) -> Names:
    return names_of(comparison, comparison.pairs[at])


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
    uses = comparison.uses(at) if comparison.is_parameter(at) else set()
    return bool(is_one(comparison, at, uses, _wrong(comparison, uses)))


def _others(comparison: Comparison, row: Row, read: tuple[Rows, Rows] | None) -> Iterator[Arrangement]:
    # Yield the other arrangements in which the values of a pair agree.
    if read is None or row.value.floor is None:
        return
    for one in comparison.orders.fitting(row.match, (row.a, row.b), is_parameter=True, rows=read)[1:]:
        if row.value.floor.excess(measure(read[0], one.apply(read[1]))) <= 1:
            yield one


def _axes(comparison: Comparison) -> tuple[dict[int, Arrangement], set[int]]:
    # Return pairs of values that agree in another order of axes, if everything computed from them agrees as it is; and
    # those of which nothing shows whether they agree so.
    found: dict[int, Arrangement] = {}
    is_open: set[int] = set()
    for at in reversed(comparison.order):
        row = comparison.rows[at]
        if comparison.is_leaf(at) or row.value.kind not in (SHAPE, VALUE):
            continue
        uses = _uses_beyond(comparison, at, {*found, *is_open})
        is_right = is_one(comparison, at, uses, {use for use in uses if comparison.rows[use].value.kind})
        fitting = next(_of_equal_numbers(comparison, at), None) if is_right is not False else None
        if fitting is not None and (is_right or (fitting.axes is None and not _wrong(comparison, uses))):
            found[at] = fitting
        elif fitting is not None:
            is_open.add(at)
    return found, is_open


def _wrong(comparison: Comparison, uses: set[int]) -> set[int]:
    return {use for use in uses if comparison.rows[use].value.kind}


def _of_equal_numbers(comparison: Comparison, at: int) -> Iterator[Arrangement]:
    # Yield the other arrangements in which the values of a pair agree.
    read = comparison.read(at, comparison.held(at, "forward"))
    if read is None or read[0].size != read[1].size or not _has_same_numbers(comparison, at, *read):
        return
    for one in of_axes(read[1].shape, read[0].shape):
        if comparison.agrees(at, measure(read[0], one.apply(read[1]))):
            yield one


def _has_same_numbers(comparison: Comparison, at: int, a: Rows, b: Rows) -> bool:
    # May the values of a pair be the same numbers in two orders? Always True for complex and for large arrays.
    if a.size > LARGEST or a.is_complex or b.is_complex:
        return True
    one, two = (Rows.of(numpy.sort(each.array(), axis=None)) for each in (a, b))
    return comparison.agrees(at, measure(one, two))


def _uses_beyond(comparison: Comparison, at: int, found: Container[int]) -> set[int]:
    # The nearest pairs computed from a pair, skipping those that are ``found``.
    uses = reached(comparison.uses(at), lambda one: comparison.uses(one) if one in found else ())
    return {one for one in uses if one not in found}


def _unlike(comparison: Comparison) -> tuple[set[int], set[int]]:
    # Return pairs of return values that differ far more than everything computed from them, and those of which nothing
    # shows whether they should agree. Pairs that were found before are skipped in what is computed from a value, so
    # the last values come first.
    found: set[int] = set()
    is_open: set[int] = set()
    rows = comparison.rows
    for at in reversed(comparison.order):
        match = rows[at].match
        is_returned = match.a in comparison.a.graph.unnamed_results and match.b in comparison.b.graph.unnamed_results
        if is_returned and rows[at].value.kind == VALUE:
            uses = _uses_beyond(comparison, at, {*found, *is_open})
            error = ALIKE * _error(rows[at])
            is_right = is_one(comparison, at, uses, {use for use in uses if _error(rows[use]) >= error})
            if is_right is not False:
                (found if is_right else is_open).add(at)
    return found, is_open


def _error(row: Row) -> float:
    # The relative error of a value; infinite if shape or dtype differ, and 0 if nothing was measured.
    if row.value.kind not in ("", VALUE):
        return math.inf
    return 0.0 if row.value.measure is None else row.value.measure.relative
