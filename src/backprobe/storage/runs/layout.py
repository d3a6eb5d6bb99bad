"""The layout of a rank's file, and the plain data that is written to it and read from it.

The statistics of a step are a matrix of columns × rows in float64. Each column is one part of the statistics, such as a
count or a sum. Each row belongs to a name and a kind of numbers (``value``, ``grad``). Within an attempt a row keeps
its place in all steps. Names that appear later get later places, and a step in which a name has no numbers holds the
values of an empty row.

- ``steps`` holds one blob for each of the newest steps, as committed.
- ``chunks`` and ``columns`` hold older steps, some hundred together: one blob for each column, in which the numbers of
  a row are adjacent. A column that is constant within a chunk, as most counts are, is stored once.

- ``lines`` holds, by name, the line of the program that calls a module or binds a local.
- ``exponents`` holds one row for each histogram, by row and step.
- ``gaps`` holds the names that have no row in a step, with the reasons. An entry applies to all steps until the next
  entry.

Each row is stored with a checksum of its bits (``sealed``), so that damage leads to an error and not to a wrong number.

``at`` therefore reads one blob or one chunk, and a series reads a few numbers from each chunk. The number of steps in a
chunk is chosen so that it holds about ``CHUNK_BYTES``. Reading one step of a chunk costs that much, and so does a
series over the newest steps.
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

APPLICATION = 0x62707277  # SQLite's application id of these files: the letters "bprw"
VERSION, OLDEST = 5, 4  # the version that is written, and the oldest that can be read
PAGE = 16384
CHUNK_BYTES = 4 << 20
MOST_STEPS = 1024  # the most steps in a chunk
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
"""Some runs of layout 5 lack this table; it then counts as empty."""

NO_NUMBERS = numpy.array(NOTHING)[:, None]

INFO = numpy.dtype([("step", "<i8"), ("time", "<f8"), ("backwards", "<i4"), ("skipped", "<i4"), ("uncleared", "<i8")])
"""The data stored for each step besides its statistics; ``time`` is in seconds since 1970.

``uncleared`` counts the parameters whose gradients were added to those of the step before.
"""
BEFORE_5 = numpy.dtype(INFO.descr[:-1])
IS_OPEN = 2
"""The value of ``skipped`` for a step that no optimizer had finished when the watch ended."""

Missing = tuple[str, str, str]
"""A name and a kind that have no row, and the code of the reason."""
Merge = Literal["sum", "once"]
"""How the rows of several processes are merged: "sum" if each holds a part, "once" if all hold the same."""


@dataclass(frozen=True)
class RowKey:
    """The identity of a row: the name and the kind of its numbers, and how processes are merged."""

    name: str
    kind: str
    merge: Merge = "sum"


@dataclass(frozen=True)
class NewRows:
    """Additions to the file: rows, aliases of rows, and lines of the program by name."""

    rows: list[RowKey] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    lines: dict[str, Source] = field(default_factory=dict)


@dataclass(frozen=True)
class StepData:
    """One step: its number, its statistics as a matrix of columns × rows, and the other data stored for a step."""

    step: int
    matrix: Matrix
    time: float = 0.0
    backwards: int = 0
    skipped: int = 0  # 1 if the gradient scaler skipped the step, IS_OPEN if no optimizer finished it, otherwise 0
    exponents: Mapping[int, Exponents] = field(default_factory=dict)  # by place of the row, if histograms were measured
    gaps: Sequence[Missing] | None = None  # None if gaps were not looked for
    uncleared: int = 0


@dataclass(frozen=True)
class Attempt:
    """One start of the training: its number, and facts such as its options and versions."""

    number: int
    facts: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, number: int, text: str) -> Attempt:
        return cls(number, json.loads(text))


def file_of(folder: Path, rank: int) -> Path:
    return folder / FILE.format(rank)


def info_of(steps: Iterable[StepData]) -> NDArray[Any]:
    """The facts about these steps as an array of dtype ``INFO``."""
    return numpy.array([(one.step, one.time, one.backwards, one.skipped, one.uncleared) for one in steps], INFO)


def joined(infos: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Several arrays of dtype ``INFO``, concatenated as bytes, because NumPy would compare the fields of each array."""
    return numpy.asarray(numpy.concatenate([one.view(f"V{INFO.itemsize}") for one in infos]).view(INFO))


def column_id(chunk: int, column: str) -> int:
    """The key of a column's blob."""
    return chunk * len(COLUMNS) + COLUMNS.index(column)


def nothing(shape: tuple[int, ...], column: str) -> Matrix:
    """A column of rows that have no numbers."""
    return numpy.full(shape, NOTHING[COLUMNS.index(column)])


def blank(height: int) -> Matrix:
    """A step of ``height`` rows that have no numbers."""
    found = numpy.empty((len(COLUMNS), height))
    found[...] = NO_NUMBERS
    return found


def steps_in_chunk(height: int) -> int:
    """The number of steps in a chunk, if each step has ``height`` rows."""
    return min(MOST_STEPS, max(1, CHUNK_BYTES // (8 * len(COLUMNS) * max(1, height))))


# Functions for checksums.

SEAL = numpy.dtype("<u8")
SEED = numpy.uint64(0x9E3779B97F4A7C15)  # added to each checksum, so that a block of zeros is not valid


def seals(rows: NDArray[Any], into: NDArray[numpy.uint64] | None = None) -> NDArray[numpy.uint64]:
    """The checksum of each row, whose numbers have eight bytes each."""
    found = _by_row(rows, SEAL).sum(axis=1, dtype=SEAL, out=into)
    found += SEED
    return numpy.asarray(found)


def sealed(rows: NDArray[Any]) -> memoryview:
    """Rows as a blob, for any memory order: first the checksums of all rows, then the rows."""
    blob = numpy.empty(len(rows) + rows.nbytes // SEAL.itemsize, SEAL)
    numbers = blob[len(rows) :].view(rows.dtype).reshape(rows.shape)
    numbers[...] = rows
    seals(numbers, blob[: len(rows)])
    return blob.data


def sealed_each(blocks: NDArray[Any]) -> list[memoryview]:
    """Each of several blocks of rows as a blob, in fewer calls of NumPy than ``sealed`` takes for each of them."""
    count, height, *_ = blocks.shape
    numbers = numpy.ascontiguousarray(blocks).view(SEAL).reshape(count * height, -1)
    blobs = numpy.empty((count, height + height * numbers.shape[1]), SEAL)
    blobs[:, :height] = seals(numbers).reshape(count, height)
    blobs[:, height:] = numbers.reshape(count, -1)
    return [blob.data for blob in blobs]


def unsealed(blob: bytes, height: int, dtype: Any = numpy.float64) -> NDArray[Any]:
    """The rows of a blob. Raises ValueError if a checksum shows that they were changed."""
    found = numpy.frombuffer(blob, SEAL, height)
    rows = _by_row(numpy.frombuffer(blob, dtype, offset=height * SEAL.itemsize), dtype, height)
    if (found != seals(rows)).any():
        raise ValueError("its numbers are not those that were written: their checksum differs")
    return rows


def _by_row(numbers: NDArray[Any], dtype: Any, height: int | None = None) -> NDArray[Any]:
    # View the bytes as ``height`` rows of numbers, or with the number of rows unchanged.
    rows = len(numbers) if height is None else height
    return numpy.asarray(numbers.view(dtype).reshape(rows, -1 if rows else 0))


def info_read(blob: bytes, version: int) -> NDArray[Any]:
    """The facts about some steps, from a file of this version. Older files lack ``uncleared``, which is set to 0."""
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
    """Some rows of a blob of ``size`` bytes, without reading the others: ``read(place, count)`` reads bytes."""
    width = size // height - SEAL.itemsize
    found = [read(place * SEAL.itemsize, SEAL.itemsize) for place in places]
    found += [read(height * SEAL.itemsize + place * width, width) for place in places]
    return unsealed(b"".join(found), len(places))
