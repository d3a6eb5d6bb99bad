"""The thread that writes a run while the training continues.

Steps wait in a queue. If the thread falls far behind, the training waits for it, so no step is lost. If writing fails,
as on a full disk, watching ends and the training continues. A forked child does not have this thread, and writes
nothing.
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

MOST_WAITING = 1000  # the most steps in the queue before the training waits
MOST_UNCOMMITTED = 100  # a commit is made after this number of steps, whatever the pace
Feed = Callable[[StepData, Sequence[RowKey]], None]
"""A function that receives a step, and the keys of all rows so far."""


@dataclass(frozen=True)
class WaitingStep:
    """A step to be written: a function that returns its data, perhaps after waiting for a device, and new rows."""

    data: Callable[[], StepData]
    new: NewRows = field(default_factory=NewRows)


@dataclass(frozen=True)
class Flush:
    """A request to write all steps that were queued before it. ``done`` is set when they are on disk, or when writing
    failed.
    """

    done: threading.Event = field(default_factory=threading.Event)
    is_last: bool = False


class Background:
    """Writes in its own thread, from its creation to ``close``. Each step is passed on to ``feed``, if there is one."""

    def __init__(self, writer: RunWriter, patience: float, feed: Feed | None = None) -> None:
        self.writer, self.feed = writer, feed
        self.patience = min(patience, threading.TIMEOUT_MAX)  # seconds until a step must be committed
        self.process = os.getpid()
        self.rows: list[RowKey] = []
        self.failure: BaseException | None = None
        self.acknowledged = -1
        self.last = -1
        self.uncommitted = 0
        self.due = 0.0  # the time at which uncommitted steps must be committed
        self.waiting: queue.Queue[WaitingStep | Flush] = queue.Queue(MOST_WAITING)
        self.thread = threading.Thread(target=self._run, name="backprobe-watch", daemon=True)
        self.thread.start()

    @property
    def is_here(self) -> bool:
        """Is this the process in which the thread runs?"""
        return os.getpid() == self.process

    def put(self, step: WaitingStep) -> None:
        if self.failure is None and self.is_here:
            self.waiting.put(step)

    def flush(self, is_last: bool = False) -> None:
        """Return when all queued steps are on disk, or when they could not be written."""
        if not self.is_here:
            return
        flush = Flush(is_last=is_last)
        self.waiting.put(flush)
        flush.done.wait()

    def close(self) -> None:
        """Write all queued steps, end the thread, and release the files for other writers."""
        if self.is_here:
            self.flush(is_last=True)
            self.thread.join()

    # Methods that run in the thread.

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
        # Apart from a block's exit, this is the only place where no error of any kind may reach the program.
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
