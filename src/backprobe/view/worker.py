"""A thread that answers questions one after another for the threads of a server, which wait for the answers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any


class Worker:
    """A single thread for all questions of one kind.

    The C library gives each thread its own pool of memory and keeps freed memory there. A server has a thread for each
    connection. If each of them reduced a run, their pools would together hold several times the memory.

    >>> worker = Worker("an example")
    >>> worker.answer(max, 1, 2)
    2
    >>> worker.close()
    """

    def __init__(self, name: str) -> None:
        self._asked: SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]] | None] = SimpleQueue()
        # a daemon, so that a program can end without waiting for it
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def answer(self, work: Callable[..., Any], *given: Any) -> Any:
        """The value that the function returns in the worker's thread. Raises the function's errors."""
        future: Future[Any] = Future()
        self._asked.put((future, work, given))
        return future.result()

    def close(self) -> None:
        """End the thread after all earlier questions were answered."""
        self._asked.put(None)

    def _work(self) -> None:
        while (asked := self._asked.get()) is not None:
            _finish(*asked)
            del asked  # otherwise the answer would be held until the next question


def _finish(future: Future[Any], work: Callable[..., Any], given: tuple[Any, ...]) -> None:
    try:
        future.set_result(work(*given))
    except BaseException as error:  # noqa: BLE001  # whoever asked raises it
        future.set_exception(error)
