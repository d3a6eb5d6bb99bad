"""The thread that writes a run, while the training goes on.

Steps wait for it in a queue. Where it falls far behind, the training waits for it: no step is lost. Where it fails, as
on a full disk, the watching ends and the training goes on. A forked child does not have the thread, and writes nothing.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic

from backprobe.storage.runs.layout import NewRows, RowKey, StepData
from backprobe.storage.runs.presence import Deleted
from backprobe.storage.runs.writer import RunWriter

MOST_WAITING = 1000  # steps
MOST_UNCOMMITTED = 100  # steps, whatever the pace is
Feed = Callable[[StepData, Sequence[RowKey]], None]
"""Takes a step, and all rows so far."""


@dataclass(frozen=True)
class WaitingStep:
    """A step to be written: what gives its numbers, which may wait for a device, and the rows that are new with it."""

    data: Callable[[], StepData]
    new: NewRows = field(default_factory=NewRows)


@dataclass(frozen=True)
class Flush:
    """What was put before it is to be on disk; ``done`` is set then, or when that has failed."""

    done: threading.Event = field(default_factory=threading.Event)
    is_last: bool = False


class Background:
    """Writes in a thread of its own, from its making to ``close``. What it has taken goes on to ``feed``."""

    def __init__(self, writer: RunWriter, patience: float, feed: Feed | None = None) -> None:
        self.writer, self.feed = writer, feed
        self.patience = min(patience, threading.TIMEOUT_MAX)  # seconds that a step may wait to be committed
        self.process = os.getpid()
        self.rows: list[RowKey] = []
        self.failure: BaseException | None = None
        self.acknowledged = -1
        self.last = -1
        self.uncommitted = 0
        self.due = 0.0  # when what is uncommitted is to be committed
        self.waiting: queue.Queue[WaitingStep | Flush] = queue.Queue(MOST_WAITING)
        self.thread = threading.Thread(target=self._run, name="backprobe-watch", daemon=True)
        self.thread.start()

    @property
    def is_here(self) -> bool:
        """Is this the process that the thread runs in?"""
        return os.getpid() == self.process

    def put(self, step: WaitingStep) -> None:
        if self.failure is None and self.is_here:
            self.waiting.put(step)

    def flush(self, is_last: bool = False) -> None:
        """Return when all that was put is on disk, or could not be written."""
        if not self.is_here:
            return
        flush = Flush(is_last=is_last)
        self.waiting.put(flush)
        flush.done.wait()

    def close(self) -> None:
        """Write what waits, end the thread, and let others write."""
        if self.is_here:
            self.flush(is_last=True)
            self.thread.join()

    # in the thread

    def _run(self) -> None:
        while True:
            try:
                item = self.waiting.get(timeout=max(0.0, self.due - monotonic()) if self.uncommitted else None)
            except queue.Empty:
                self._try(self._commit)
                continue
            if isinstance(item, WaitingStep):
                self._try(lambda item=item: self._write(item))  # type: ignore[misc]  # its type is known
                continue
            self._try(self.writer.close if item.is_last else self._commit)
            if item.is_last and self.failure is None:
                self.acknowledged = self.last
            item.done.set()
            if item.is_last:
                return

    def _try(self, work: Callable[[], None]) -> None:
        # The one place besides a block's exit where whatever goes wrong must not reach the program.
        if self.failure is not None:
            return
        try:
            work()
        except BaseException as error:  # noqa: BLE001  # a training must neither fail nor wait for ever for being watched
            self.failure = error
            if isinstance(error, Deleted):
                self.acknowledged = -1
            self.writer.abandon()

    def _write(self, step: WaitingStep) -> None:
        self.writer.add_rows(step.new.rows, step.new.aliases, step.new.lines)
        data = step.data()
        self.writer.append(data)
        if self.feed is not None:
            self.rows += step.new.rows
            self.feed(data, self.rows)
        self.last = data.step
        if not self.uncommitted:
            self.due = monotonic() + self.patience
        self.uncommitted += 1
        if self.uncommitted >= MOST_UNCOMMITTED or monotonic() >= self.due:
            self._commit()

    def _commit(self) -> None:
        self.writer.commit()
        self.acknowledged, self.uncommitted = self.last, 0
