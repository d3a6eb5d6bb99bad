"""Quiet exits if a command is stopped from outside: by Ctrl-C, or because nobody reads its output any more."""

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
"""The exit status if nobody reads the output any more: 128 plus the number of SIGPIPE, as in shells."""


def is_unread(error: BaseException) -> bool:
    """Was an error raised because nobody reads the output any more, as with ``| head``? If so, discard the rest."""
    if not isinstance(error, BrokenPipeError):
        return False
    numbers = map(number_of, (sys.stdout, sys.stderr))
    closed = [number for number in numbers if number is not None and _is_closed(number)]
    for number in closed:  # otherwise Python would flush again at exit, and print that flushing failed
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)
    return bool(closed)


def number_of(stream: Any) -> int | None:
    """The file descriptor of a stream; None if the stream has none."""
    try:
        found: int = stream.fileno()
    except (AttributeError, OSError, ValueError):  # no stream, a stream in memory, or a closed stream
        return None
    return found


def _is_closed(number: int) -> bool:
    if not hasattr(select, "poll"):  # Windows has no poll
        return False
    asked = select.poll()
    asked.register(number, 0)  # poll reports a closed reader even if no event is requested
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in asked.poll(0))


@contextmanager
def loading() -> Iterator[None]:
    """Inside this context Ctrl-C raises KeyboardInterrupt, even if an import suppresses it.

    The import of PyTorch suppresses it: its C++ code continues without NumPy, and fails later with another error.
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
