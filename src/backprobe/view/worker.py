"""A thread that answers one question after another, for the threads of a server that wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any


class Worker:
    """One thread for all questions of a kind.

    The C library gives a thread a part of memory of its own, and keeps what is freed there. A server has a thread for
    each connection: where each of them reduces a run, it holds the memory of several.

    >>> worker = Worker("an example")
    >>> worker.answer(max, 1, 2)
    2
    >>> worker.close()
    """

    def __init__(self, name: str) -> None:
        self._asked: SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]] | None] = SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()  # a program that ends does not wait for it

    def answer(self, work: Callable[..., Any], *given: Any) -> Any:
        """What a function returns or raises in that thread."""
        future: Future[Any] = Future()
        self._asked.put((future, work, given))
        return future.result()

    def close(self) -> None:
        """End the thread behind what was asked before."""
        self._asked.put(None)

    def _work(self) -> None:
        while (asked := self._asked.get()) is not None:
            _finish(*asked)
            del asked  # the answer is not held until the next question


def _finish(future: Future[Any], work: Callable[..., Any], given: tuple[Any, ...]) -> None:
    try:
        future.set_result(work(*given))
    except BaseException as error:  # noqa: BLE001  # whoever asked raises it
        future.set_exception(error)
