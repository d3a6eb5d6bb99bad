"""Converts an exported data set back to a run, by writing the same files as a watch, part by part."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray

from backprobe.errors import BadRun, installed
from backprobe.exports import schema
from backprobe.exports.places import Place
from backprobe.record.exponents import Exponents
from backprobe.record.source import Source
from backprobe.record.statistics import COLUMNS
from backprobe.storage.runs.layout import RowKey, StepData, blank
from backprobe.storage.runs.writer import RunWriter

Read = dict[tuple[int, int], NDArray[numpy.float64]]


class Dataset:
    """An exported data set. Raises BadRun if there is none, and NotInstalled."""

    def __init__(self, place: Place) -> None:
        self.place, self.arrow = place, place.arrow
        self.ranks = dict(sorted(schema.ranks_in(place).items()))
        if not self.ranks:
            raise BadRun(
                f"{place.shown} has no export of a run",
                asked=place.asked,
                found=f"no {schema.META.format(0)}",
                next="run.export(path), and then bp.open_run(path)",
            )
        for rank, meta in self.ranks.items():
            self._check(rank, meta)

    def _check(self, rank: int, meta: Any) -> None:
        name = schema.META.format(rank)
        known = {"attempts", "rows", "aliases", "lines", "gaps", "parts", "files"}
        if not isinstance(meta, dict) or not known <= meta.keys():
            raise self.place.damaged(name, ValueError("it does not say what was exported"))
        if meta.get("format") != schema.FORMAT:
            raise BadRun(
                f"{self.place.shown} was exported in another format",
                asked=self.place.asked,
                found=f"format {meta.get('format')}, and this version reads {schema.FORMAT}",
                next="run.export(path) again, from the run",
            )
        if meta.get("fields") is not None:
            raise BadRun(
                f"{self.place.shown} has only some fields of a run",
                asked=self.place.asked,
                found=f"fields={meta['fields']}",
                why="alerts and statistics need the others",
                next="run.export(path), without fields=; or any reader of Parquet",
            )

    @property
    def format(self) -> str:
        return str(next(iter(self.ranks.values()))["files"])

    def rows(self) -> Any:
        """The table of all rows as a ``pyarrow.dataset.Dataset``, which is read lazily."""
        return self._of("rows", schema.rows(self.arrow))

    def steps(self) -> Any:
        """The table of all steps."""
        return self._of("steps", schema.steps(self.arrow))

    def _of(self, table: str, columns: Any) -> Any:
        dataset = installed("pyarrow.dataset", asked=self.place.asked)
        hive = dataset.partitioning(
            self.arrow.schema([("rank", self.arrow.int32()), ("first_step", self.arrow.int64())]), flavor="hive"
        )
        wanted = self.arrow.schema([*columns, *hive.schema])
        with self.reading(table):
            return dataset.dataset(
                self.place.path(table),
                schema=wanted,
                format=self._checked(dataset),
                filesystem=self.place.system,
                partitioning=hive,
                exclude_invalid_files=False,
            )

    def _checked(self, dataset: Any) -> Any:
        # The file format, with verification of checksums for Parquet.
        if self.format != "parquet":
            return self.format
        options = dataset.ParquetFragmentScanOptions(page_checksum_verification=True)
        return dataset.ParquetFileFormat(default_fragment_scan_options=options)

    def unpack(self, folder: Path) -> None:
        """Write the run into a folder. Raises BadRun for a damaged file."""
        for rank, meta in self.ranks.items():
            _Unpacking(self, rank, meta).into(folder)

    @contextmanager
    def reading(self, *parts: str) -> Iterator[None]:
        """Inside this context, errors that a damaged file causes are raised as BadRun."""
        try:
            yield
        except (self.arrow.ArrowException, OSError, KeyError, ValueError, TypeError, IndexError) as error:
            if isinstance(error, BadRun):
                raise
            raise self.place.damaged("/".join(parts), error) from error


class _Unpacking:
    # Reads one rank from a data set.
    def __init__(self, dataset: Dataset, rank: int, meta: Any) -> None:
        self.dataset, self.rank, self.meta = dataset, rank, meta
        self.gaps = {(attempt, step): missing for attempt, step, missing in meta["gaps"]}

    def into(self, folder: Path) -> None:
        for attempt, facts in enumerate(self.meta["attempts"]):
            with self.dataset.reading(schema.META.format(self.rank)):
                writer = RunWriter(folder, self.rank, facts, self.dataset.place.asked)
                try:
                    self._attempt(attempt, writer, attempt == len(self.meta["attempts"]) - 1)
                    writer.commit(is_last=True)
                finally:
                    writer.abandon()

    def _attempt(self, attempt: int, writer: RunWriter, is_last: bool) -> None:
        keys = [RowKey(name, kind, merge) for of, name, kind, merge in self.meta["rows"] if of == attempt]
        lines = {name: Source(**one) for name, one in self.meta["lines"].items()} if is_last else {}
        writer.add_rows(keys, self.meta["aliases"] if is_last else {}, lines)
        gaps = sorted(step for of, step in self.gaps if of == attempt)
        said = None
        for part in self.meta["parts"]:
            for step in self._steps(attempt, part["first_step"], keys):
                while gaps and gaps[0] <= step.step:
                    said = self.gaps[attempt, gaps.pop(0)]
                writer.append(step if said is None else _with_gaps(step, said))
                if len(writer.pending) * max(1, len(keys)) > 1 << 17:
                    writer.commit()

    def _steps(self, attempt: int, first: int, keys: list[RowKey]) -> Iterator[StepData]:
        # Yield the steps of a part that a given attempt made.
        files = [
            [table, f"rank={self.rank}", f"first_step={first}", f"part.{self.dataset.format}"]
            for table in schema.TABLES
        ]
        with self.dataset.reading(*files[1]):
            info = [one for one in self._table(files[1]) if one["attempt"] == attempt]
        if not info:
            return
        places = {(key.name, key.kind): at for at, key in enumerate(keys)}
        with self.dataset.reading(*files[2]):
            counted = self._counted(files[2], attempt, places)
        waiting = deque(sorted(info, key=lambda one: one["step"]))
        empty = blank(len(keys))
        with self.dataset.reading(*files[0]):
            for steps, matrices in self._matrices(files[0], attempt, places):
                for step, matrix in zip(steps, matrices, strict=True):
                    while waiting and waiting[0]["step"] < step:
                        yield _step(waiting.popleft(), empty, counted)
                    if waiting and waiting[0]["step"] == step:
                        yield _step(waiting.popleft(), matrix, counted)
        yield from (_step(one, empty, counted) for one in waiting)

    def _counted(self, file: list[str], attempt: int, places: Any) -> dict[int, dict[int, Exponents]]:
        found: dict[int, dict[int, Exponents]] = {}
        if not self.dataset.place.names(*file[:-1]):
            return found
        for one in self._table(file):
            if one["attempt"] == attempt:
                counts = numpy.array(one["counts"], numpy.int64)
                at = places[one["name"], one["kind"]]
                found.setdefault(one["step"], {})[at] = Exponents(one["low"], counts, one["smallest"])
        return found

    def _table(self, file: list[str]) -> list[dict[str, Any]]:
        return [row for batch in self._batches(file) for row in batch.to_pylist()]

    def _batches(self, file: list[str]) -> Iterator[Any]:
        # Yield the tables of a file in the parts in which they were written. Each part has complete steps.
        place = self.dataset.place
        with place.system.open_input_file(place.path(*file)) as opened:
            if self.dataset.format == "parquet":
                reader = installed("pyarrow.parquet", asked=place.asked).ParquetFile
                parquet = reader(opened, page_checksum_verification=True)
                yield from (parquet.read_row_group(at) for at in range(parquet.num_row_groups))
            else:
                reader = installed("pyarrow.ipc", asked=place.asked).open_file(opened)
                yield from (
                    self.dataset.arrow.Table.from_batches([reader.get_batch(at)])
                    for at in range(reader.num_record_batches)
                )

    def _matrices(self, file: list[str], attempt: int, places: Any) -> Iterator[tuple[Any, Any]]:
        # Yield the steps in order, each with its matrix of columns × rows.
        for table in self._batches(file):
            table = table.filter(self.dataset.arrow.array(table["attempt"].to_numpy() == attempt))
            if not table.num_rows:
                continue
            steps, when = numpy.unique(table["step"].to_numpy(), return_inverse=True)
            at = _places(table, places)
            found = numpy.stack([blank(len(places))] * len(steps))
            for number, column in enumerate(COLUMNS):
                found[when, number, at] = table[column].to_numpy()
            yield steps.tolist(), found


def _places(table: Any, places: Any) -> NDArray[numpy.int64]:
    # For each row of the table, the position of its name and kind among the rows of the run.
    texts, codes = [], []
    for column in ("name", "kind"):
        encoded = table[column].combine_chunks()
        encoded = encoded if hasattr(encoded, "dictionary") else encoded.dictionary_encode()
        texts.append(encoded.dictionary.to_pylist())
        codes.append(encoded.indices.to_numpy().astype(numpy.int64))
    known = numpy.full((len(texts[0]), len(texts[1])), -1)
    for (name, kind), place in places.items():
        if name in texts[0] and kind in texts[1]:
            known[texts[0].index(name), texts[1].index(kind)] = place
    found = known[codes[0], codes[1]]
    if len(found) and found.min() < 0:
        raise ValueError("it has a name that the run has not")
    return numpy.asarray(found)


def _step(info: dict[str, Any], matrix: Any, counted: dict[int, dict[int, Exponents]]) -> StepData:
    return StepData(
        info["step"],
        matrix,
        info["time"],
        info["backwards"],
        info["skipped"],
        counted.get(info["step"], {}),
        uncleared=info["uncleared"],
    )


def _with_gaps(step: StepData, said: Any) -> StepData:
    return replace(step, gaps=[(name, kind, code) for name, kind, code in said])
