"""The layout of a rank's file, and the plain data that goes in and out.

The statistics of a step are a matrix of columns × rows in float64: the columns are those of a statistic, and the rows
belong to names, each with a kind of number (``value``, ``grad``). A row's place is the same in all steps of an attempt:
names that come later get later places, and a step that has none of their numbers has the row of no numbers.

- ``steps`` holds one blob for each step, as it was committed: the newest steps only.
- ``chunks`` and ``columns`` hold the older ones: some hundred steps together, a blob for each column, with the numbers
  of a row side by side. A column that does not change within a chunk, as most counts, is stored once.

- ``lines`` has the line of the program in which a module is called, or a local is bound, by name.
- ``exponents`` has a row for each histogram, by row and step.
- ``gaps`` says which names have no row in a step, and why. What it says holds until it says something else.

Each row of numbers is written behind a sum of its bits (``sealed``), so that damage is an error and no wrong number.

So ``at`` reads one blob or one chunk, and a series reads a few numbers of each chunk. How many steps are in a chunk is
chosen so that it holds about ``CHUNK_BYTES``: reading one step of a chunk costs that much, and so does a series in the
newest steps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy
from numpy.typing import NDArray

from backprobe.record.exponents import Exponents
from backprobe.record.source import Source
from backprobe.record.statistics import COLUMNS, NOTHING

APPLICATION = 0x62707277  # "bprw"
VERSION, OLDEST = 5, 4  # that is written, and that is read still
PAGE = 16384
CHUNK_BYTES = 4 << 20
MOST_STEPS = 1024  # in a chunk
FILE, LOCK = "rank-{}.sqlite", "rank-{}.lock"
Matrix = NDArray[numpy.float64]

TABLES = """
CREATE TABLE attempts (attempt INTEGER PRIMARY KEY, facts TEXT NOT NULL);
CREATE TABLE rows (attempt INTEGER, place INTEGER, name TEXT, kind TEXT, merge TEXT, PRIMARY KEY (attempt, place));
CREATE TABLE aliases (attempt INTEGER, alias TEXT, name TEXT, PRIMARY KEY (attempt, alias));
CREATE TABLE steps (id INTEGER PRIMARY KEY, attempt INTEGER, info BLOB, data BLOB);
CREATE TABLE chunks (id INTEGER PRIMARY KEY, attempt INTEGER, count INTEGER, height INTEGER, info BLOB);
CREATE TABLE columns (id INTEGER PRIMARY KEY, data BLOB);
CREATE TABLE exponents (attempt INTEGER, place INTEGER, step INTEGER, low INTEGER, smallest REAL, counts BLOB,
  PRIMARY KEY (attempt, place, step)) WITHOUT ROWID;
CREATE TABLE gaps (attempt INTEGER, step INTEGER, gaps TEXT NOT NULL, PRIMARY KEY (attempt, step));
"""
LINES = """
CREATE TABLE IF NOT EXISTS lines (attempt INTEGER, name TEXT, file TEXT, line INTEGER, text TEXT,
  PRIMARY KEY (attempt, name));
"""
"""A table that some runs of layout 5 lack: they are read as if it were empty."""

NO_NUMBERS = numpy.array(NOTHING)[:, None]

INFO = numpy.dtype([("step", "<i8"), ("time", "<f8"), ("backwards", "<i4"), ("skipped", "<i4"), ("uncleared", "<i8")])
"""What is known of a step beside its statistics; ``time`` is in seconds since 1970.

``uncleared`` counts the parameters whose gradients were added to those of the step before.
"""
BEFORE_5 = numpy.dtype(INFO.descr[:-1])
IS_OPEN = 2
"""What is in the place of ``skipped`` of a step that no optimizer had ended as the watch did."""

Missing = tuple[str, str, str]
"""A name and a kind without a row, and the code of the reason."""
Merge = Literal["sum", "once"]
"""How processes' rows of a name become one: their numbers are parts of a whole, or the same in each."""


@dataclass(frozen=True)
class RowKey:
    """What a row is about."""

    name: str
    kind: str
    merge: Merge = "sum"


@dataclass(frozen=True)
class NewRows:
    """New rows, to be appended; other names of rows; and lines of the program, by name."""

    rows: list[RowKey] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    lines: dict[str, Source] = field(default_factory=dict)


@dataclass(frozen=True)
class StepData:
    """One step: its number, what is known of it, and its statistics, a matrix of columns × rows."""

    step: int
    matrix: Matrix
    time: float = 0.0
    backwards: int = 0
    skipped: int = 0  # 1 for a scaler that did, or IS_OPEN
    exponents: Mapping[int, Exponents] = field(default_factory=dict)  # by place, where they were taken
    gaps: Sequence[Missing] | None = None  # None where that was not looked at
    uncleared: int = 0


@dataclass(frozen=True)
class Attempt:
    """One start of the training: its number, and what it was started with."""

    number: int
    facts: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, number: int, text: str) -> Attempt:
        return cls(number, json.loads(text))


def file_of(folder: Path, rank: int) -> Path:
    return folder / FILE.format(rank)


def info_of(steps: Iterable[StepData]) -> NDArray[Any]:
    """What is known of these steps."""
    return numpy.array([(one.step, one.time, one.backwards, one.skipped, one.uncleared) for one in steps], INFO)


def joined(infos: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """What is known of steps, one after another: as plain bytes, since NumPy compares fields at each array."""
    return numpy.asarray(numpy.concatenate([one.view(f"V{INFO.itemsize}") for one in infos]).view(INFO))


def column_id(chunk: int, column: str) -> int:
    """The key of a column's blob."""
    return chunk * len(COLUMNS) + COLUMNS.index(column)


def nothing(shape: tuple[int, ...], column: str) -> Matrix:
    """A column for rows of no numbers."""
    return numpy.full(shape, NOTHING[COLUMNS.index(column)])


def blank(height: int) -> Matrix:
    """A step of so many rows of no numbers."""
    found = numpy.empty((len(COLUMNS), height))
    found[...] = NO_NUMBERS
    return found


def steps_in_chunk(height: int) -> int:
    """How many steps of so many rows are put together."""
    return min(MOST_STEPS, max(1, CHUNK_BYTES // (8 * len(COLUMNS) * max(1, height))))


# numbers that are sealed

SEAL = numpy.dtype("<u8")
SEED = numpy.uint64(0x9E3779B97F4A7C15)  # so that zeros all over do not fit


def seals(rows: NDArray[Any], into: NDArray[numpy.uint64] | None = None) -> NDArray[numpy.uint64]:
    """A sum of the bits of each row, whose numbers have eight bytes."""
    found = _by_row(rows, SEAL).sum(axis=1, dtype=SEAL, out=into)
    found += SEED
    return numpy.asarray(found)


def sealed(rows: NDArray[Any]) -> memoryview:
    """Rows of numbers as a blob, in whichever order they lie: the sums of all rows, and then the rows."""
    blob = numpy.empty(len(rows) + rows.nbytes // SEAL.itemsize, SEAL)
    numbers = blob[len(rows) :].view(rows.dtype).reshape(rows.shape)
    numbers[...] = rows
    seals(numbers, blob[: len(rows)])
    return blob.data


def unsealed(blob: bytes, height: int, dtype: Any = numpy.float64) -> NDArray[Any]:
    """The rows of a blob. Raises ValueError where they are not what was written."""
    found = numpy.frombuffer(blob, SEAL, height)
    rows = _by_row(numpy.frombuffer(blob, dtype, offset=height * SEAL.itemsize), dtype, height)
    if (found != seals(rows)).any():
        raise ValueError("its numbers are not those that were written: their checksum differs")
    return rows


def _by_row(numbers: NDArray[Any], dtype: Any, height: int | None = None) -> NDArray[Any]:
    # The same bytes as so many rows of numbers, or as many as there are.
    rows = len(numbers) if height is None else height
    return numpy.asarray(numbers.view(dtype).reshape(rows, -1 if rows else 0))


def info_read(blob: bytes, version: int) -> NDArray[Any]:
    """What is known of some steps, from a file of this version: an older one does not say how many were uncleared."""
    if version >= VERSION:
        return numpy.asarray(unsealed(blob, 1, INFO)[0])
    old = unsealed(blob, 1, BEFORE_5)[0]
    found = numpy.zeros(len(old), INFO)
    for name in BEFORE_5.names or ():
        found[name] = old[name]
    return found


def unsealed_rows(
    read: Callable[[int, int], bytes], size: int, height: int, places: Sequence[int]
) -> NDArray[numpy.float64]:
    """Some rows of a blob of this size, read without the others: ``read`` gives so many bytes from a place on."""
    width = size // height - SEAL.itemsize
    found = [read(place * SEAL.itemsize, SEAL.itemsize) for place in places]
    found += [read(height * SEAL.itemsize + place * width, width) for place in places]
    return unsealed(b"".join(found), len(places))
