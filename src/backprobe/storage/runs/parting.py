"""The first step at which two runs differ: in any bit of a count or sum, or by more than a given share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from backprobe.storage.runs.layout import Matrix, RowKey
from backprobe.storage.runs.merged import RunReader

BLOCK = 1 << 19  # numbers of a column that are compared together
COMPARED = ("count", "finite", "sum", "squares")


@dataclass(frozen=True)
class Parting:
    """The first step at which two runs differ by more than a given share, and the differing rows in the order of the
    model.
    """

    step: int
    rows: Sequence[tuple[str, str]]


def partings(first: RunReader, second: RunReader, shares: Sequence[float]) -> list[Parting | None]:
    """For each share, the first common step at which a count differs, or an rms by more than that share.

    A share of 0 means any bit of a count, a sum or a sum of squares. None if no common step differs that much.
    """
    known = second.rows()
    rows = [(row, known[key]) for key, row in first.rows().items() if key in known]
    steps, here, there = numpy.intersect1d(first.info()["step"], second.info()["step"], return_indices=True)
    found: list[Parting | None] = [None] * len(shares)
    size = max(1, BLOCK // max(1, len(rows)))
    for start in range(0, len(steps) if rows else 0, size):
        at = slice(start, start + size)
        a = _columns(first, [row for row, _ in rows], here[at])
        b = _columns(second, [row for _, row in rows], there[at])
        for place, share in enumerate(shares):
            if found[place] is None:
                found[place] = _first(_differ(a, b, share), steps[at], [row for row, _ in rows])
        if None not in found:
            break
    return found


def _columns(reader: RunReader, rows: Sequence[RowKey], places: NDArray[numpy.int64]) -> dict[str, Matrix]:
    # The columns of some rows at these places, as rows × places.
    keys = [(row.name, row.kind) for row in rows]
    low, high = int(places[0]), int(places[-1]) + 1
    found = {column: reader.narrow(rows, keys, column, low, high) for column in COMPARED}
    return {
        column: numpy.broadcast_to(numbers, (len(rows), high - low))[:, places - low]
        for column, numbers in found.items()
    }


def _differ(a: dict[str, Matrix], b: dict[str, Matrix], share: float) -> NDArray[numpy.bool_]:
    is_other = (a["count"] != b["count"]) | (a["finite"] != b["finite"])
    if not share:
        return numpy.asarray(is_other | (a["sum"] != b["sum"]) | (a["squares"] != b["squares"]))
    with numpy.errstate(all="ignore"):
        one, other = (numpy.sqrt(side["squares"] / side["finite"]) for side in (a, b))
        return numpy.asarray(is_other | (abs(one - other) > share * numpy.maximum(one, other)))


def _first(is_other: NDArray[numpy.bool_], steps: NDArray[numpy.int64], rows: Sequence[RowKey]) -> Parting | None:
    found = numpy.flatnonzero(is_other.any(axis=0))
    if not len(found):
        return None
    those = numpy.flatnonzero(is_other[:, found[0]])
    return Parting(int(steps[found[0]]), [(rows[at].name, rows[at].kind) for at in those.tolist()])
