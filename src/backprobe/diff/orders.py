"""The order of axes in which a pair's arrays are compared: from a layout, else from the conventions of both
recordings.
"""

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

    A parameter is arranged by its convention. For other values, the sizes of the axes decide; if two arrangements fit,
    the one in which the numbers are closer.
    """

    def __init__(
        self, layouts: Layouts, conventions: tuple[Convention, Convention] | None, maps: Collection[Shape] = ()
    ) -> None:
        self.layouts, self.conventions = layouts, conventions or (PLAIN, PLAIN)
        self.is_strict = conventions is None
        """Is it one convention, so that what lies otherwise differs?"""
        self.maps = maps  # shapes of feature maps, channels first
        self.chosen: dict[Match, Arrangement] = {}

    def both(self, match: Match, pair: Pair, *, is_parameter: bool, rows: tuple[Rows, Rows]) -> tuple[Rows, Rows]:
        """What is compared of two arrays. Raises BadOption for a layout of other axes."""
        a, b = rows
        readings = match.readings
        if readings[0].of > 1:
            a = _part(a, readings[0], is_turned=self._turned(pair)[0])
        if readings[1].of > 1:
            b = _part(b, readings[1], is_turned=self._turned(pair)[1])
        return a, self.arrangement(match, pair, is_parameter=is_parameter, rows=(a, b)).apply(b)

    def arrangement(self, match: Match, pair: Pair, *, is_parameter: bool, rows: tuple[Rows, Rows]) -> Arrangement:
        """The arrangement of a pair, decided by the first of its arrays that are seen."""
        a, b = rows
        found = self.layouts.of(pair[0].name, pair[1].name, b.shape)
        if found is None and match in self.chosen:
            found = self.chosen[match]
            found = found if found.shape_of(b.shape) == a.shape else None
        if found is None:
            found = self._chosen(self.fitting(match, pair, is_parameter=is_parameter, rows=rows), is_parameter, rows)
            self.chosen[match] = found
        return found

    def fitting(
        self, match: Match, pair: Pair, *, is_parameter: bool, rows: tuple[Rows, Rows]
    ) -> Sequence[Arrangement]:
        """The arrangements that the conventions allow, the likely one first."""
        a, b = (one.shape for one in rows)
        if self.is_strict:
            return [AS_IT_IS]
        if not is_parameter:
            return of_values(b, a, (self.conventions[0].is_channels_last, self.conventions[1].is_channels_last))
        turned = self._turned(pair)
        whole = tuple(is_turned and reading.of == 1 for is_turned, reading in zip(turned, match.readings, strict=True))
        found = of_weights(b, a, (whole[0], whole[1]))
        each = [*found[:1], *of_flattened(b, a, (whole[0], whole[1]), self.maps)]
        return [min(each, key=lambda one: measure(rows[0], one.apply(rows[1])).relative)] if len(each) > 1 else found

    def _turned(self, pair: Pair) -> tuple[bool, bool]:
        # For each recording: is the parameter stored as (input, output)?
        a, b = (
            partition(entry.name, ".")[-1] in convention.turned
            for entry, convention in zip(pair, self.conventions, strict=True)
        )
        return a, b

    @staticmethod
    def _chosen(each: Sequence[Arrangement], is_parameter: bool, rows: tuple[Rows, Rows]) -> Arrangement:
        if len(each) < 2 or is_parameter:
            return each[0] if each else AS_IT_IS
        return min(each, key=lambda one: measure(rows[0], one.apply(rows[1])).relative)


def feature_maps(records: Sequence[Record], conventions: tuple[Convention, Convention] | None) -> set[Shape]:
    """The shapes of values that may be feature maps, channels first, with and without the batch axis."""
    found: set[Shape] = set()
    for record, convention in zip(records, conventions or (), strict=False):
        for shape in {entry.shape for entry in record.entries if len(entry.shape or ()) > 2}:
            each = (shape or ())[1:], shape or ()
            found |= {(one[-1], *one[:-1]) if convention.is_channels_last else one for one in each}
    return found


def _part(rows: Rows, reading: ParameterReading, *, is_turned: bool) -> Rows:
    # A part of a parameter, along its outputs.
    rows = rows.transpose() if is_turned else rows
    rows = rows.reshape((-1,)) if rows.ndim and rows.shape[0] % reading.of else rows  # two biases in one
    size = rows.shape[0] // reading.of if rows.ndim else 0
    return Rows(rows.stored[reading.part * size : (reading.part + 1) * size], rows.dtype)
