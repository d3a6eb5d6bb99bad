"""Quiet ends of a command that is stopped from outside: by Ctrl-C, or because nobody reads its output any more."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

UNREAD = 141
"""The exit status where nobody reads the output: 128 and the number of SIGPIPE, as shells have it."""


def is_unread(error: BaseException) -> bool:
    """Did an error come up because nobody reads our output, as in ``| head``? What is left of it is dropped then."""
    if not isinstance(error, BrokenPipeError):
        return False
    numbers = map(number_of, (sys.stdout, sys.stderr))
    closed = [number for number in numbers if number is not None and _is_closed(number)]
    for number in closed:  # else Python would try again when it ends, and print that it failed
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)
    return bool(closed)


def number_of(stream: Any) -> int | None:
    """The system's number of a stream; None where it has none."""
    try:
        found: int = stream.fileno()
    except (AttributeError, OSError, ValueError):  # none, one in memory, one that is closed
        return None
    return found


def _is_closed(number: int) -> bool:
    if not hasattr(select, "poll"):  # Windows
        return False
    asked = select.poll()
    asked.register(number, 0)  # that nobody reads is said without asking
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in asked.poll(0))


@contextmanager
def loading() -> Iterator[None]:
    """Within this context Ctrl-C raises KeyboardInterrupt also where a package that is imported drops it.

    PyTorch's C++ does, which goes on without NumPy, and fails later in other words.
    """
    before, noticed = signal.getsignal(signal.SIGINT), list[int]()
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield
        return

    def notice(number: int, frame: FrameType | None) -> None:
        noticed.append(number)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, notice)
    try:
        yield
    except Exception:
        if noticed:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)
    if noticed:
        raise KeyboardInterrupt
