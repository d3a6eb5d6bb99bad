"""Quiet exits when a command is stopped from outside, by Ctrl-C or because its output is no longer read."""

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
"""The exit status when the output is no longer read: 128 plus the number of SIGPIPE, as in shells."""


def is_unread(error: BaseException) -> bool:
    """Was an error raised because our output is no longer read, as in ``| head``? If so, discards the rest."""
    if not isinstance(error, BrokenPipeError):
        return False
    numbers = map(number_of, (sys.stdout, sys.stderr))
    closed = [number for number in numbers if number is not None and _is_closed(number)]
    for number in closed:  # else Python would flush again at its exit, and print that this failed
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)
    return bool(closed)


def number_of(stream: Any) -> int | None:
    """The file descriptor of a stream; None if it has none."""
    try:
        found: int = stream.fileno()
    except (AttributeError, OSError, ValueError):  # no stream, one in memory, or a closed one
        return None
    return found


def _is_closed(number: int) -> bool:
    if not hasattr(select, "poll"):  # Windows
        return False
    asked = select.poll()
    asked.register(number, 0)  # a closed reader is reported without asking for any event
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in asked.poll(0))


@contextmanager
def loading() -> Iterator[None]:
    """Inside this context Ctrl-C raises KeyboardInterrupt even if an import swallows it.

    PyTorch's C++ code does: it continues without NumPy, and fails later with another error.
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
