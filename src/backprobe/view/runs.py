"""The runs that a viewer shows: found in folders, numbered, opened once, and read by one thread at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any

import numpy

from backprobe.errors import BackprobeError
from backprobe.rules.judge import Judge
from backprobe.storage.runs.layout import FILE
from backprobe.storage.runs.levels import Level
from backprobe.storage.runs.merged import RunReader, open_ranks
from backprobe.storage.runs.reduced import Stretch, stretches_of_nonfinite

LOOK = 0.5  # seconds between two searches for new runs
DEEPEST = 4  # how many folders deep runs are searched
LEVELS = 4 << 20  # bytes of cached bins for each run, before the cache drops a field


class ShownRuns:
    """The runs in some folders. A run keeps its number when others appear."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = [one.absolute() for one in folders]
        self.known: dict[Path, OpenRun] = {}
        self.looked, self.lock = 0.0, Lock()

    def all(self) -> list[OpenRun]:
        """All runs that were ever found, by number. The folders are searched again after a while."""
        with self.lock:
            if not self.known or monotonic() - self.looked > LOOK:
                for found in [run for folder in self.folders for run in _runs_in(folder)]:
                    if found not in self.known:
                        self.known[found] = OpenRun(len(self.known), found, _label(found, self.folders))
                self.looked = monotonic()
            return list(self.known.values())

    def __getitem__(self, number: int) -> OpenRun:
        """The run with this number. Raises LookupError."""
        found = self.all() if number >= len(self.known) else list(self.known.values())
        if not 0 <= number < len(found):
            raise LookupError(f"no run has the number {number}")
        return found[number]

    def close(self) -> None:
        for one in self.known.values():
            one.close()


def _runs_in(folder: Path) -> list[Path]:
    if any(folder.glob(FILE.format("*"))):
        return [folder]
    below = ("*/" * depth + FILE.format("*") for depth in range(1, DEEPEST + 1))
    return sorted({file.parent for pattern in below for file in folder.glob(pattern)})


def _label(run: Path, folders: Sequence[Path]) -> str:
    # The label of a run: its path below the given folder. If that folder is the run itself, its name and its parent's.
    around = next(one for one in folders if run.is_relative_to(one))
    return str(run.relative_to(around)) if run != around else f"{run.parent.name}/{run.name}"


class OpenRun:
    """One run, opened when it is first read. Numbers and alerts have separate readers and never wait for each other."""

    def __init__(self, number: int, folder: Path, label: str) -> None:
        self.number, self.folder, self.label = number, folder, label
        self._numbers, self._alerts = Handle(folder), Handle(folder)
        self._levels: dict[tuple[int, str, tuple[str, ...]], Level] = {}
        self._nonfinite: tuple[int, Any, list[Stretch]] = -1, numpy.empty(0, numpy.int64), []
        # the cached summary, and the state of the files from which it was made
        self.said: tuple[Any, dict[str, Any]] = None, {}

    def files(self) -> Any:
        """A value that changes when something is written to the run."""
        with suppress(OSError), os.scandir(self.folder) as found:
            return sorted((one.name, one.stat().st_mtime_ns, one.stat().st_size) for one in found)

    def reading(self) -> Any:
        """A context in which this thread alone uses the reader. Raises BadRun."""
        return self._numbers.reading()

    def judging(self) -> Any:
        """A context in which this thread alone uses a second reader, and a judge that continues where it stopped."""
        return self._alerts.judging()

    def level(self, reader: RunReader, names: Sequence[str], field: str) -> Level:
        """The cached bins of a field, from a reader that this thread alone uses."""
        key = id(reader), field, tuple(names)
        if key not in self._levels:
            kept = [(one, level) for one, level in self._levels.items() if one[0] == id(reader)]
            while kept and sum(level.size for _, level in kept) > LEVELS:
                kept.pop(0)
            self._levels = dict(kept)
            self._levels[key] = Level(reader, list(names), field, self.folder)
        self._levels[key] = self._levels.pop(key)  # moved to the end, as the most recently used
        return self._levels[key]

    def nonfinite(self, reader: RunReader) -> tuple[list[Stretch], int | None]:
        """Stretches of NaN and Inf from the first step on, and the step at which to continue. Known steps are not read
        again.
        """
        steps = reader.info()["step"]
        last, made_by, found = self._nonfinite
        begin = int(steps[0]) if len(steps) else 0
        if last >= 0 and numpy.array_equal(reader.made_by(last), made_by):
            # a stretch that ends at the last step may continue
            begin = min((one.first for one in found if one.last == last), default=last + 1)
        kept = [one for one in found if one.first < begin]
        new, rest = stretches_of_nonfinite(reader, begin)
        if rest is None and len(steps):
            self._nonfinite = int(steps[-1]), reader.made_by(int(steps[-1])), kept + new
        return kept + new, rest

    def close(self) -> None:
        self._levels = {}
        self._numbers.close()
        self._alerts.close()


class Handle:
    """A reader of a run, for one thread at a time. If the run was deleted and made again, it is opened again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lock = folder, Lock()
        self.reader: RunReader | None = None
        self.judge: Judge | None = None
        self.files: Any = None

    def _opened(self) -> RunReader:
        files = self._files()
        if self.reader is None or files != self.files:
            self._close()
            self.reader, self.files = open_ranks(self.folder, f"bp.open_run({str(self.folder)!r})"), files
        return self.reader

    def _files(self) -> list[Any]:
        # A value that changes when a file is added or replaced.
        with os.scandir(self.folder) as found:
            return sorted((one.name, one.inode()) for one in found if one.name.endswith(".sqlite"))

    @contextmanager
    def reading(self) -> Iterator[RunReader]:
        with self.lock:
            try:
                reader = self._opened()
                yield reader
            except BackprobeError:
                self._close()  # a damaged file may be intact at the next attempt
                raise

    @contextmanager
    def judging(self) -> Iterator[tuple[RunReader, Judge]]:
        with self.reading() as reader:
            self.judge = self.judge or Judge(reader)
            yield reader, self.judge

    def _close(self) -> None:
        if self.reader is not None:
            self.reader.close()
        self.reader = self.judge = None

    def close(self) -> None:
        with self.lock:
            self._close()
