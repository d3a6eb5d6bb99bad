"""Runs tasks on an executor: in batches, repeated if a worker is lost, with results in order."""

from __future__ import annotations

import dataclasses
import pickle
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from backprobe.errors import BadOption, WorkerLost
from backprobe.executors.pickling import pickled
from backprobe.executors.worker import Answer, Parcel, Work, digest_of, home, run_batch
from backprobe.findings.phrasing import quoted

BATCHES = 64
"""One batch takes 1/64 of the remaining tasks.

A lost worker then loses few tasks. Tasks are sent one by one at the end, so that no worker waits long for another.
"""
SHARED = Path("/dev/shm")  # a folder in shared memory, for all processes of a machine


def batches(count: int, most: int | None = None) -> list[range]:
    """Split ``count`` tasks into batches of decreasing size, or with ``most`` into at most ``most`` equal batches.

    >>> [len(one) for one in batches(130)][:3], [len(one) for one in batches(130)][-1], batches(5, 2)
    ([3, 2, 2], 1, [range(0, 3), range(3, 5)])
    """
    found, at = list[range](), 0
    while at < count:
        size = -(-(count - at) // BATCHES) if most is None else -(-count // most)
        found.append(range(at, min(at + size, count)))
        at += size
    return found


class Tasks:
    """The tasks of one work, by number. ``done`` has the results so far.

    ``names`` are the names of the tasks and ``parts`` the parts of the work, for messages.
    """

    def __init__(self, executor: Executor, work: Work, names: Sequence[str], asked: str, parts: dict[str, Any]) -> None:
        self.executor, self.names, self.asked = executor, names, asked
        self.data = pickled(work, parts, asked)
        self.done: dict[int, Any] = {}
        self.stack = ExitStack()
        self.error: BaseException | None = None  # the error that ended a worker

    def run(self, advance: Callable[[str], None]) -> list[Any]:
        """The results of all tasks in order. Raises the errors of tasks, BadOption and WorkerLost."""
        numbers = range(len(self.names))
        with self.stack:
            parcel = self._parcel()
            lost = self._round(parcel, batches(len(numbers), getattr(self.executor, "batches", None)), advance)
            if lost:
                before = self._begun(parcel)
                self._rebuild()
                again = self._round(parcel, [[number] for number in lost], advance)
                if again:
                    raise self._lost(again, before, self._begun(parcel))
        return [self.done[number] for number in numbers]

    def _parcel(self) -> Parcel:
        # Write the work to a folder where workers find it: the executor's own folder, or else one on this machine.
        own = getattr(self.executor, "folder", None)
        place = own if own is not None else SHARED if SHARED.is_dir() else None
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="backprobe-", dir=place)))
        (folder / "work").write_bytes(self.data)
        (folder / "begun").mkdir()
        return Parcel(digest_of(self.data), str(folder / "work"), str(folder / "begun"), home())

    def _round(self, parcel: Parcel, batches: Sequence[Sequence[int]], advance: Callable[[str], None]) -> list[int]:
        # Submit all batches and collect their results. Returns the tasks that were lost with a worker.
        futures: list[tuple[Sequence[int], Future[Answer] | None]] = []
        try:
            futures += [(batch, self._submit(parcel, batch)) for batch in batches]
            for batch, future in futures:
                self._take(self._answer(parcel, batch, future), advance)
        except BaseException:
            for _, future in futures:
                if future is not None:
                    future.cancel()
            for _, future in futures:  # results that have already arrived are kept
                if future is not None and future.done() and not future.cancelled() and future.exception() is None:
                    with suppress(Exception):
                        self._take(future.result(), lambda name: None)
            raise
        return [number for batch in batches for number in batch if number not in self.done]

    def _submit(self, parcel: Parcel, batch: Sequence[int]) -> Future[Answer] | None:
        # Submit a batch. Returns None if the executor has lost its workers. Raises BadOption for a closed executor.
        try:
            return self.executor.submit(run_batch, parcel, list(batch))
        except BrokenExecutor as error:
            self.error = error
            return None
        except RuntimeError as error:
            raise BadOption(
                "the executor takes no tasks",
                asked=self.asked,
                found=f"{type(error).__name__}: {error}",
                next="with ProcessPoolExecutor(2) as executor: around the call",
            ) from error

    def _answer(self, parcel: Parcel, batch: Sequence[int], future: Future[Answer] | None) -> Answer:
        # Return the results of a batch; empty if its worker was lost. A worker on another machine gets the data itself
        # if it does not have the work yet.
        ways = [parcel, dataclasses.replace(parcel, data=self.data)]
        while future is not None:
            try:
                answer = future.result()
            except Exception as error:  # noqa: BLE001  # errors of a task come as answers: this one is of the worker
                self.error = error
                break
            if not answer.is_missing or not ways:
                return answer
            future = self._submit(ways.pop(0), batch)
        return Answer()

    def _take(self, answer: Answer, advance: Callable[[str], None]) -> None:
        if answer.is_home:
            raise BadOption(
                "the executor runs its tasks in this process",
                asked=self.asked,
                found=type(self.executor).__name__,
                why="runs at the same time would share the state of one program",
                next="an executor of processes: executor=concurrent.futures.ProcessPoolExecutor(2)",
            )
        for number, is_result, data in answer.results:
            if number in self.done:
                continue
            value = pickle.loads(data)
            if not is_result:
                value.add_note(f"backprobe: raised in a worker, in the run of {self.names[number]!r}")
                raise value
            self.done[number] = value
            advance(self.names[number])

    def _begun(self, parcel: Parcel) -> set[int]:
        # Return the tasks that lost workers had started, and remove their marks, because the next round makes its own.
        found = set()
        for file in Path(parcel.begun).iterdir():
            found.add(int(file.name))
            file.unlink(missing_ok=True)
        return found

    def _rebuild(self) -> None:
        # A process pool cannot be used after it has lost a process, so replace it by a new pool with the same settings.
        old = self.executor
        if isinstance(self.error, BrokenExecutor) and isinstance(old, ProcessPoolExecutor):
            made: dict[str, Any] = {
                name: getattr(old, f"_{name}", None)
                for name in ("max_workers", "mp_context", "initializer", "initargs", "max_tasks_per_child")
            }
            made["initargs"] = made["initargs"] or ()
            new = ProcessPoolExecutor(**made)
            self.stack.callback(new.shutdown, wait=False, cancel_futures=True)
            self.executor = new

    def _lost(self, lost: list[int], before: set[int], after: set[int]) -> WorkerLost:
        suspects = sorted((before & after or after) & {*lost}) or lost[:1]
        names = quoted([self.names[number] for number in suspects])
        return WorkerLost(
            f"a worker was lost twice in the run of {names}",
            asked=self.asked,
            found=f"{type(self.error).__name__}: {self.error}",
            why="it was killed, or had too little memory",
            next="without executor=, or with fewer workers",
        )
