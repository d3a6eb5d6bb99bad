"""Silences one thread: what it prints from Python, logs and warns is dropped. Other threads are unaffected."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from backprobe.backends.patching import replaced

LOCK = threading.Lock()
"""Held by the only thread that is silenced now. Otherwise one thread could restore a stream that another has
replaced.
"""

STREAMS = ("stdout", "stderr")


class _Beside:
    # Replaces a stream, and drops everything that one thread writes to it.
    def __init__(self, stream: Any, thread: int) -> None:
        self._stream, self._thread = stream, thread

    def write(self, text: str) -> int:
        return len(text) if threading.get_ident() == self._thread else self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def silent() -> Iterator[bool]:
    """Within this context this thread prints, logs and warns nothing. Yields False, and changes nothing, if a thread
    is silenced already.

    >>> with silent() as is_silent:
    ...     print("not to be seen")
    >>> print("to be seen", is_silent)
    to be seen True
    """
    import logging  # only programs that run again need it

    if not LOCK.acquire(blocking=False):
        yield False
        return
    try:
        with ExitStack() as stack:
            for name in STREAMS:
                stack.enter_context(_standing(name))
            stack.enter_context(replaced([(logging.Logger, "handle", _nothing), (warnings, "_showwarnmsg", _nothing)]))
            yield True
    finally:
        LOCK.release()


@contextmanager
def _standing(name: str) -> Iterator[None]:
    before = getattr(sys, name)
    own = _Beside(before, threading.get_ident())
    setattr(sys, name, own)
    try:
        yield
    finally:
        if getattr(sys, name) is own:
            setattr(sys, name, before)


def _nothing(*said: Any) -> None:
    return
