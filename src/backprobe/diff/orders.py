"""Chooses the arrangement in which a pair is compared: from a layout, or from the conventions of both recordings."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from backprobe.backends.rows import Rows
from backprobe.diff.arranging import AS_IT_IS, Arrangement, Shape, of_flattened, of_values, of_weights
from backprobe.diff.conventions import PLAIN, Convention
from backprobe.diff.layout import Layouts
from backprobe.diff.matches import Match, ParameterReading
from backprobe.diff.measuring import measure
from backprobe.record.entries import Entry, Record
from backprobe.record.names import partition

Pair = tuple[Entry, Entry]


class Orders:
    """The arrangement of each pair, which holds for its values and its gradients.

    Without a layout, a parameter is arranged by its convention. For other values, the arrangement must fit the sizes of
    the axes. If several fit, the one with the closer numbers is chosen.
    """

    def __init__(
        self, layouts: Layouts, conventions: tuple[Convention, Convention] | None, maps: Collection[Shape] = ()
    ) -> None:
        self.layouts, self.conventions = layouts, conventions or (PLAIN, PLAIN)
        self.is_strict = conventions is None
        """True if both recordings have the same convention: another order of axes is then a difference."""
        self.maps = maps  # shapes of feature maps, with channels first
        self.chosen: dict[Match, Arrangement] = {}

    def both(self, match: Match, pair: Pair, *, is_parameter: bool, rows: tuple[Rows, Rows]) -> tuple[Rows, Rows]:
        """The two arrays as they are compared. Raises BadOption for a layout with the wrong number of axes."""
        a, b = (
            _part(one, reading, is_turned=is_turned) if reading.of > 1 else one
            for one, reading, is_turned in zip(rows, match.readings, self._turned(pair), strict=True)
        )
        return a, self._arrangement(match, pair, is_parameter=is_parameter, rows=(a, b)).apply(b)

    def _arrangement(self, match: Match, pair: Pair, *, is_parameter: bool, rows: tuple[Rows, Rows]) -> Arrangement:
        # The arrangement of a pair. Without a layout, it is chosen with the first of the pair's arrays, and used again
        # for the others if it fits their shapes.
        a, b = rows
        found = self.layouts.of(pair[0].name, pair[1].name, b.shape)
        if found is None and match in self.chosen:
            found = self.chosen[match]
            found = found if found.shape_of(b.shape) == a.shape else None
        if found is None:
            each = self.fitting(match, pair, is_parameter=is_parameter, rows=rows)
            found = self.chosen[match] = _closest(each[:1] if is_parameter else each, rows)
        return found

    def fitting(
        self, match: Match, pair: Pair, *, is_parameter: bool, rows: tuple[Rows, Rows]
    ) -> Sequence[Arrangement]:
        """The arrangements that the conventions allow, the likeliest first."""
        a, b = (one.shape for one in rows)
        if self.is_strict:
            return [AS_IT_IS]
        if not is_parameter:
            return of_values(b, a, (self.conventions[0].is_channels_last, self.conventions[1].is_channels_last))
        turned = self._turned(pair)
        whole = tuple(is_turned and reading.of == 1 for is_turned, reading in zip(turned, match.readings, strict=True))
        found = of_weights(b, a, (whole[0], whole[1]))
        each = [*found[:1], *of_flattened(b, a, (whole[0], whole[1]), self.maps)]
        return [_closest(each, rows)] if len(each) > 1 else found

    def _turned(self, pair: Pair) -> tuple[bool, bool]:
        # For each recording: is the parameter stored as (input, output)?
        a, b = (
            partition(entry.name, ".")[-1] in convention.turned
            for entry, convention in zip(pair, self.conventions, strict=True)
        )
        return a, b


def _closest(each: Sequence[Arrangement], rows: tuple[Rows, Rows]) -> Arrangement:
    # The arrangement with which the numbers of both arrays differ least.
    if len(each) < 2:
        return each[0] if each else AS_IT_IS
    return min(each, key=lambda one: measure(rows[0], one.apply(rows[1])).relative)


def feature_maps(records: Sequence[Record], conventions: tuple[Convention, Convention] | None) -> set[Shape]:
    """Return shapes of values that may be feature maps, with channels first, with and without the batch axis; none
    without ``conventions``.
    """
    found: set[Shape] = set()
    for record, convention in zip(records, conventions or (), strict=False):
        for shape in {entry.shape for entry in record.entries if len(entry.shape or ()) > 2}:
            each = (shape or ())[1:], shape or ()
            found |= {(one[-1], *one[:-1]) if convention.is_channels_last else one for one in each}
    return found


def _part(rows: Rows, reading: ParameterReading, *, is_turned: bool) -> Rows:
    # Return a part of a parameter, cut along its output axis.
    rows = rows.transpose() if is_turned else rows
    # the parameter packs two biases in two rows, which are joined
    rows = rows.reshape((-1,)) if rows.ndim and rows.shape[0] % reading.of else rows
    size = rows.shape[0] // reading.of if rows.ndim else 0
    return Rows(rows.stored[reading.part * size : (reading.part + 1) * size], rows.dtype)
