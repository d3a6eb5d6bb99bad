"""A field over all steps of a growing run, in cached bins, so that each step is processed only once.

Each bin covers the same number of steps, a power of two. New steps fill new bins; those that do not fill one yet are
read each time. When there are too many bins, each two neighbours are merged into one. A picture needs fewer bins than
are kept, so it merges some of them. The bins of a long run are also saved beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy

from backprobe.storage.runs.kept_bins import is_long, keep, kept
from backprobe.storage.runs.merged import RunReader
from backprobe.storage.runs.reduced import Binned, binned

GROWN = 1.1  # bins are saved again when they cover this many times the steps that are saved
# the most bins: as many as give NUMBERS names × bins, but at least FEWEST and at most MOST
NUMBERS, FEWEST, MOST = 1 << 20, 256, 4096


class Level:
    """The bins of one field of some names of a run. If ``folder`` is given, they are also saved there."""

    def __init__(self, reader: RunReader, names: Sequence[str], field: str, folder: Path | None = None) -> None:
        self.reader, self.names, self.field, self.folder = reader, names, field, folder
        self.written = 0  # the number of steps that the saved bins cover
        self.most = max(FEWEST, min(MOST, NUMBERS // max(1, len(names)))) // 2 * 2
        self.width, self.known = 1, numpy.empty(0, numpy.int64)  # the steps that lie in complete bins
        self.made_by = self.known  # the attempt that made each step in complete bins
        self.whole = _nothing(names)

    @property
    def size(self) -> int:
        """The bytes that the bins take."""
        return int(self.whole.least.nbytes + self.whole.greatest.nbytes)

    def binned(self, bins: int) -> Binned:
        """All steps so far, in at most ``bins`` bins."""
        steps = self.reader.info()["step"]
        if not self._goes_on(steps):
            self.width, self.known, self.whole = 1, self.known[:0], _nothing(self.names)
        has_kept = is_long(len(self.names), len(steps))
        if has_kept and not len(self.known):
            self._take(steps)
        self._extend(steps)
        self.made_by = self._made_by()
        if has_kept and len(self.known) > GROWN * self.written:
            self._keep()
        rest = len(self.known)
        parts = [self.whole] if rest == len(steps) else [self.whole, self._read(steps, rest, len(steps), 1)]
        count = len(self.whole.first) + len(parts) - 1
        return _together(_joined(parts), -(-count // bins))

    def _take(self, steps: Any) -> None:
        # Start from the saved bins.
        found = None if self.folder is None else kept(self.folder, self.reader, self.names, self.field)
        if found is None:
            return
        count = int(numpy.searchsorted(steps, found.last[-1], side="right"))
        width = count // len(found.first)
        if width & (width - 1) or not numpy.array_equal(found.last, steps[:count][width - 1 :: width]):
            return
        self.width, self.known, self.whole, self.written = width, steps[:count].copy(), found, count

    def _keep(self) -> None:
        if self.folder is not None:
            keep(self.folder, self.reader, self.field, self.whole)
            self.written = len(self.known)

    def _goes_on(self, steps: Any) -> bool:
        # Are the known steps unchanged? A resumed training may overwrite some of them.
        are_there = numpy.array_equal(self.known, steps[: len(self.known)])
        return are_there and numpy.array_equal(self.made_by, self._made_by())

    def _made_by(self) -> Any:
        return self.reader.made_by(int(self.known[-1])) if len(self.known) else numpy.empty(0, numpy.int64)

    def _extend(self, steps: Any) -> None:
        # Read the steps that complete further bins.
        while len(steps) // self.width > self.most:
            self._double()
        # the last step that all ranks have written
        settled = int(numpy.searchsorted(steps, self.reader.settled(), side="right"))
        end = settled // self.width * self.width
        if end > len(self.known):
            bins = (end - len(self.known)) // self.width
            self.whole = _joined([self.whole, self._read(steps, len(self.known), end, bins)])
            self.known = steps[:end].copy()

    def _double(self) -> None:
        # Merge each two neighbouring bins. If their number is odd, the last one is dropped and read again later.
        even = len(self.whole.first) // 2 * 2
        self.whole = _together(_part(self.whole, even), 2)
        self.width *= 2
        self.known = self.known[: even // 2 * self.width]

    def _read(self, steps: Any, low: int, high: int, bins: int) -> Binned:
        return binned(self.reader, self.names, self.field, bins, int(steps[low]), int(steps[high - 1]))


def _nothing(names: Sequence[str]) -> Binned:
    none, empty = numpy.empty(0, numpy.int64), numpy.empty((len(names), 0), numpy.float32)
    return Binned(names, none, none, empty, empty, {})


def _part(found: Binned, end: int) -> Binned:
    # The first ``end`` bins.
    nonfinite = {kind: counts[:, :end] for kind, counts in found.nonfinite.items()}
    return Binned(
        found.names, found.first[:end], found.last[:end], found.least[:, :end], found.greatest[:, :end], nonfinite
    )


def _joined(parts: Sequence[Binned]) -> Binned:
    # Join several series of bins, one after another.
    parts = [part for part in parts if len(part.first)] or [*parts[:1]]
    if len(parts) == 1:
        return parts[0]
    kinds = dict.fromkeys(kind for part in parts for kind in part.nonfinite)
    nonfinite = {
        kind: numpy.concatenate(
            [part.nonfinite.get(kind, numpy.zeros(part.least.shape, numpy.int64)) for part in parts], axis=1
        )
        for kind in kinds
    }
    return Binned(
        parts[0].names,
        numpy.concatenate([part.first for part in parts]),
        numpy.concatenate([part.last for part in parts]),
        numpy.concatenate([part.least for part in parts], axis=1),
        numpy.concatenate([part.greatest for part in parts], axis=1),
        nonfinite,
    )


def _together(found: Binned, size: int) -> Binned:
    # Merge each ``size`` neighbouring bins into one.
    if size <= 1 or not len(found.first):
        return found
    begins = numpy.arange(0, len(found.first), size)
    ends = numpy.append(begins[1:], len(found.first)) - 1
    return Binned(
        found.names,
        found.first[begins],
        found.last[ends],
        numpy.fmin.reduceat(found.least, begins, axis=1),
        numpy.fmax.reduceat(found.greatest, begins, axis=1),
        {kind: numpy.add.reduceat(counts, begins, axis=1) for kind, counts in found.nonfinite.items()},
    )
