"""Writes a run as a data set of Parquet or Arrow files. Only parts that have changed are written again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from hashlib import blake2b
from typing import Any

import numpy

from backprobe.errors import BadOption, installed
from backprobe.exports import schema
from backprobe.exports.places import Place
from backprobe.record.statistics import COLUMNS, columns_for
from backprobe.storage.runs.layout import INFO
from backprobe.storage.runs.merged import LOGGED, OF_LOGGED, RATIO, RunReader
from backprobe.storage.runs.reader import FileIndex, RankFile

AT_ONCE = 1 << 18
"""About the number of rows in memory at the same time."""


def write_dataset(
    reader: RunReader, path: str | os.PathLike[str], format: str, fields: Sequence[str] | None, asked: str
) -> None:
    """Write all ranks. Raises BadOption if the folder contains something else, NotInstalled and BadRun."""
    place = Place(path, asked)
    known = _written_before(place, reader, format, fields)
    for rank, file in reader.ranks.items():
        _Rank(place, rank, file, format, fields).write(known.get(rank, {}))


def _written_before(place: Place, reader: RunReader, format: str, fields: Any) -> dict[int, Any]:
    # Return what earlier exports wrote, by rank. Raises BadOption for anything except this run in this format.
    inside, found = place.names(), schema.ranks_in(place)
    wanted = {"format": schema.FORMAT, "files": format, "fields": None if fields is None else list(fields)}
    differs = [key for one in found.values() for key, value in wanted.items() if one.get(key) != value]
    is_other = any(
        rank not in reader.ranks or not _is_same(one, reader.ranks[rank].index()) for rank, one in found.items()
    )
    if differs or is_other or (inside and not found and inside != ["rows"]):
        what = f"an export of this run with another {differs[0]}" if differs else "an export of another run"
        raise BadOption(
            f"{place.shown} has something else in it",
            asked=place.asked,
            found=what if found else f"{inside[0]!r}, and no export of a run",
            why="an export goes on where the last one of the same run ended",
            next="an empty folder, or the one of this run's last export",
        )
    return found


def _is_same(known: Any, index: FileIndex) -> bool:
    # Does an earlier export belong to the same run? It does if the facts about the start of the run are equal.
    before, now = known.get("attempts") or [{}], index.attempts
    return bool(now) and all(before[0].get(key) == value for key, value in now[0].facts.items() if key != "ended")


class _Rank:
    # Writes one rank to a data set.
    def __init__(self, place: Place, rank: int, file: RankFile, format: str, fields: Sequence[str] | None) -> None:
        self.place, self.rank, self.file, self.format, self.fields = place, rank, file, format, fields
        self.arrow = place.arrow
        self.index = file.index()
        self.keys = [key for key in self.index.keys if fields is None or key[1] in _kinds(fields)]
        self.columns = COLUMNS if fields is None else _columns(fields)
        self.has_histograms = fields is None and file.has_exponents()

    def write(self, known: Any) -> None:
        before = {one["first_step"]: one["digest"] for one in known.get("parts", [])}
        parts = [self._part(low) for low in range(0, len(self.index.info), schema.SPAN)]
        for low, part in zip(range(0, len(self.index.info), schema.SPAN), parts, strict=True):
            if before.pop(part["first_step"], None) != part["digest"]:
                self._write_part(part, low, low + part["steps"])
        self.place.write_json(schema.META.format(self.rank), self._meta(parts))
        for first in before:  # remove parts of an earlier attempt, which began at other steps than the present parts
            for table in schema.TABLES:
                self.place.remove(table, *self._folder(first))

    def _part(self, low: int) -> dict[str, Any]:
        # Describe a part: its steps, and a checksum of their facts, which changes if a step is rewritten.
        info = self.index.info[low : low + schema.SPAN]
        attempts = self.index.attempt_of[low : low + schema.SPAN]
        digest = blake2b(info.tobytes() + attempts.tobytes(), digest_size=16)
        return {"first_step": int(info["step"][0]), "steps": len(info), "digest": digest.hexdigest()}

    def _folder(self, first: int) -> tuple[str, str]:
        return f"rank={self.rank}", f"first_step={first}"

    def _write_part(self, part: dict[str, Any], low: int, high: int) -> None:
        folder = self._folder(part["first_step"])
        with self._file("steps", folder, schema.steps(self.arrow)) as write:
            write(steps_table(self.arrow, self.index, low, high))
        if self.has_histograms:
            with self._file("histograms", folder, schema.histograms(self.arrow)) as write:
                write(self._histograms(low, high))
        with self._file("rows", folder, schema.rows(self.arrow)) as write:
            size = max(1, AT_ONCE // max(1, len(self.keys)))
            texts = Texts(self.arrow, self.keys, self.index)
            for at in range(low, high, size):
                write(rows_table(self.file, texts, at, min(at + size, high), self.columns))

    @contextmanager
    def _file(self, table: str, folder: tuple[str, str], wanted: Any) -> Iterator[Any]:
        # Open a file of a part, and yield the function that writes tables to it.
        with self.place.replacing(table, *folder, f"part.{self.format}") as file:
            if self.format == "parquet":
                parquet = installed("pyarrow.parquet", asked=self.place.asked)
                with parquet.ParquetWriter(file, wanted, compression="zstd", write_page_checksum=True) as writer:
                    yield writer.write_table
            else:
                with installed("pyarrow.ipc", asked=self.place.asked).new_file(file, wanted) as writer:
                    yield writer.write_table

    def _histograms(self, low: int, high: int) -> Any:
        info, attempts = self.index.info["step"], self.index.attempt_of
        first, last = int(info[low]), int(info[high - 1])
        found: list[dict[str, Any]] = []
        for name, kind in self.keys:
            for step, one in self.file.exponents((name, kind), first, last).items():
                attempt = int(attempts[numpy.searchsorted(info, step)])
                found.append(
                    {
                        "attempt": attempt,
                        "step": step,
                        "name": name,
                        "kind": kind,
                        "low": int(one.low),
                        "smallest": float(one.smallest),
                        "counts": one.counts.tolist(),
                    }
                )
        return self.arrow.Table.from_pylist(found, schema=schema.histograms(self.arrow))

    def _meta(self, parts: list[dict[str, Any]]) -> dict[str, Any]:
        keys = self.index.keys
        return {
            "format": schema.FORMAT,
            "files": self.format,
            "rank": self.rank,
            "fields": None if self.fields is None else list(self.fields),
            "attempts": [dict(one.facts) for one in self.index.attempts],
            "rows": [
                [attempt, *key, keys[key].merge]
                for attempt, places in sorted(self.index.places.items())
                for key in sorted(places, key=places.__getitem__)
            ],
            "aliases": self.index.aliases,
            "lines": {name: asdict(line) for name, line in self.file.lines().items()},
            "gaps": [[attempt, step, list(map(list, missing))] for attempt, step, missing in self.file.said_of_gaps()],
            "parts": parts,
        }


class Texts:
    """The name columns of rows in Arrow's form: numbers that refer to a list of distinct texts, which is made once."""

    def __init__(self, arrow: Any, keys: Sequence[tuple[str, str]], index: FileIndex) -> None:
        self.arrow, self.index, self.keys = arrow, index, list(keys)
        self.lists: dict[str, Any] = {}
        self.codes: dict[str, Any] = {}
        columns: dict[str, list[str]] = {
            "name": [name for name, _ in keys],
            "kind": [kind for _, kind in keys],
            "merge": [index.keys[key].merge for key in keys],
        }
        for column, texts in columns.items():
            known = {text: at for at, text in enumerate(dict.fromkeys(texts))}
            self.lists[column] = arrow.array(list(known), arrow.string())
            self.codes[column] = numpy.array([known[text] for text in texts], numpy.int32)

    def of(self, column: str, places: Any) -> Any:
        """The texts of a column for the rows with these numbers."""
        return self.arrow.DictionaryArray.from_arrays(self.codes[column][places], self.lists[column])


def steps_table(arrow: Any, index: FileIndex, low: int, high: int) -> Any:
    """The facts about each step of a rank in a range of steps as an Arrow table."""
    info = index.info[low:high]
    columns = {"attempt": index.attempt_of[low:high], **{name: info[name].copy() for name in INFO.names or ()}}
    return arrow.table(columns).cast(schema.steps(arrow))


def rows_table(file: RankFile, texts: Texts, low: int, high: int, columns: Sequence[str] = COLUMNS) -> Any:
    """The rows of a rank in a range of steps as an Arrow table."""
    arrow, index = texts.arrow, texts.index
    shape = len(texts.keys), high - low

    def read(column: str) -> Any:
        return numpy.broadcast_to(file.narrow(texts.keys, column, low, high), shape).T

    count = read("count")
    when, where = numpy.nonzero(count)
    numbers = {"count": count[when, where]}
    numbers |= {column: read(column)[when, where] for column in columns if column != "count"}
    absent = arrow.nulls(len(when), arrow.float64()) if len(columns) < len(COLUMNS) else None
    held = [arrow.array(numbers[column]) if column in numbers else absent for column in COLUMNS]
    first = [
        arrow.array(index.attempt_of[low:high][when].astype(numpy.int32)),
        arrow.array(index.info["step"][low:high][when]),
        *(texts.of(column, where) for column in ("name", "kind", "merge")),
    ]
    return arrow.Table.from_arrays([*first, *held], schema=schema.rows(arrow))


def _kinds(fields: Sequence[str]) -> set[str]:
    # The kinds of numbers that these fields belong to.
    kinds = {field.partition(".")[0] for field in fields}
    return kinds | {"param"} if RATIO in fields else kinds


def _columns(fields: Sequence[str]) -> tuple[str, ...]:
    # The stored columns that these fields are computed from.
    wanted = {"rms" if field == RATIO else field.rpartition(".")[2] for field in fields if field != LOGGED}
    needed = {"count", "finite", *columns_for(wanted)}
    if LOGGED in fields:
        needed |= {*OF_LOGGED}
    return tuple(column for column in COLUMNS if column in needed)
