"""Bins of a long run, saved next to it, so that its first picture is read instead of being computed again.

A file is used only if it was made from the same data: the same steps, times, attempts and rows, and the same numbers in
the last step, on all ranks. A file that is damaged or was made from other steps is treated as missing. If the folder
cannot be written, nothing is saved.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy

from backprobe.record.disk import written_whole
from backprobe.storage.runs.merged import RunReader
from backprobe.storage.runs.reduced import Binned

FOLDER, ENDING = "bins", ".npz"  # inside the run's folder
# from this many steps, or names × steps, reading saved bins is faster than computing them
LONG, MANY = 10_000, 5_000_000
MOST = 8  # files that are kept: those that were saved last
BEFORE = "nonfinite "
UNFIT = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)
"""Errors that reading a damaged file may raise."""


def keep(folder: Path, reader: RunReader, field: str, found: Binned) -> None:
    """Save complete bins, starting at the first step, if the folder can be written."""
    arrays: dict[str, Any] = {
        "first": found.first,
        "last": found.last,
        "least": found.least,
        "greatest": found.greatest,
    }
    arrays |= {f"{BEFORE}{kind}": counts.astype(numpy.uint32) for kind, counts in found.nonfinite.items()}
    made_of = numpy.frombuffer(_made_of(reader, found.names, field, int(found.last[-1])), numpy.uint8)
    with suppress(OSError):
        target = _file(folder, found.names, field)
        target.parent.mkdir(exist_ok=True)
        with written_whole(target) as opened:
            numpy.savez(opened, made_of=made_of, **arrays)
        others = sorted(target.parent.glob(f"*{ENDING}"), key=lambda one: one.stat().st_mtime)
        for one in others[:-MOST]:
            one.unlink(missing_ok=True)


def is_long(names: int, steps: int) -> bool:
    """Is the run so large that its bins are saved?"""
    return steps >= LONG or names * steps >= MANY


def kept(folder: Path, reader: RunReader, names: Sequence[str], field: str) -> Binned | None:
    """The saved bins of a field; None if there are none that were made from these steps."""
    try:
        with _file(folder, names, field).open("rb") as opened, numpy.load(opened) as file:
            first, last = file["first"], file["last"]
            if file["made_of"].tobytes() != _made_of(reader, names, field, int(last[-1])):
                return None
            found = Binned(
                names,
                first,
                last,
                file["least"],
                file["greatest"],
                {name.removeprefix(BEFORE): file[name].astype(numpy.int64) for name in file if name.startswith(BEFORE)},
            )
    except UNFIT:
        return None
    planes: list[Any] = [found.least, found.greatest, *found.nonfinite.values()]
    return found if all(one.shape == (len(names), len(first)) for one in planes) else None


def _file(folder: Path, names: Sequence[str], field: str) -> Path:
    asked = hashlib.sha256("\0".join([field, *names]).encode(errors="surrogatepass")).hexdigest()
    return folder / FOLDER / f"{asked[:24]}{ENDING}"


def _made_of(reader: RunReader, names: Sequence[str], field: str, last: int) -> bytes:
    # A digest that changes if a step up to ``last`` or a row changes. It includes the numbers of the last step, because
    # a training that is started again does not reproduce these numbers.
    found = hashlib.sha256(repr([field, *names]).encode())
    found.update(repr(sorted((row.name, row.kind, row.merge) for row in reader.rows().values())).encode())
    found.update(repr(reader.at(last)).encode())
    for number, rank in reader.ranks.items():
        index = rank.index()
        count = int(numpy.searchsorted(index.info["step"], last, side="right"))
        found.update(repr((number, count)).encode() + index.info[:count].tobytes() + index.attempt_of[:count].tobytes())
    return found.digest()
