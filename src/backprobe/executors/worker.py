"""The worker's side: it receives the work once, then does some of the tasks at a time."""

from __future__ import annotations

import os
import pickle
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol

Task = Callable[[int], Any]


class Work(Protocol):
    """The object that each worker receives once: the program, its arguments, and how to do a task."""

    def begin(self) -> Task:
        """Prepare the worker, and return the function that does the task with a given number."""


@dataclass(frozen=True)
class Parcel:
    """Tells a worker how to get the work: from a file on its machine, or from ``data`` in the parcel itself.

    ``home`` identifies the process that sent the work.
    """

    digest: str
    file: str
    begun: str
    """A folder with a file for each running task, which shows the tasks that a lost worker had started."""

    home: tuple[str, int]
    data: bytes | None = None


@dataclass(frozen=True)
class Answer:
    """Results of some tasks: for each its number, whether it succeeded, and the pickled result or error."""

    results: Sequence[tuple[int, bool, bytes]] = ()
    is_missing: bool = False
    """True if the worker does not have the work."""

    is_home: bool = False
    """True if the worker is the process that submitted the tasks."""


_held: dict[str, Task] = {}
_lock = threading.Lock()  # if workers are threads, only one program runs at a time


def home() -> tuple[str, int]:
    """Return a host name and process number that identify this process among all machines."""
    return socket.gethostname(), os.getpid()


def digest_of(data: bytes) -> str:
    """Return a hash that identifies a work."""
    return blake2b(data, digest_size=16).hexdigest()


def run_batch(parcel: Parcel, numbers: Sequence[int]) -> Answer:
    """Do some tasks. An error ends the batch. After Ctrl-C the results so far are returned."""
    if parcel.home == home():
        return Answer(is_home=True)
    results: list[tuple[int, bool, bytes]] = []
    with _lock, suppress(KeyboardInterrupt):
        try:
            task = _task(parcel)
        except Exception as error:  # noqa: BLE001  # of the program, which is raised where it was asked for
            return Answer([(numbers[0], False, _dumped(error))])
        if task is None:
            return Answer(is_missing=True)
        for number in numbers:
            mark = Path(parcel.begun, str(number))
            with suppress(OSError):  # on another machine this folder does not exist
                mark.touch()
            try:
                results.append((number, True, _dumped(task(number))))
            except Exception as error:  # noqa: BLE001  # likewise
                results.append((number, False, _dumped(error)))
                break
            finally:
                with suppress(OSError):
                    mark.unlink()
    return Answer(results)


def _task(parcel: Parcel) -> Task | None:
    if parcel.digest not in _held:
        data = parcel.data
        if data is None:
            with suppress(OSError):
                data = Path(parcel.file).read_bytes()
        if data is None or digest_of(data) != parcel.digest:
            return None
        _held.clear()  # earlier work is never requested again
        work: Work = pickle.loads(data)
        _held[parcel.digest] = work.begin()
    return _held[parcel.digest]


def _dumped(value: Any) -> bytes:
    # Pickle a result. An error that cannot be pickled is replaced by its text.
    import cloudpickle

    try:
        data: bytes = cloudpickle.dumps(value)
        if isinstance(value, Exception):
            pickle.loads(data)  # some errors can be pickled but not unpickled
        return data
    except Exception:
        if not isinstance(value, Exception):
            raise
        again: bytes = cloudpickle.dumps(RuntimeError(f"{type(value).__name__}: {value}"))
        return again
