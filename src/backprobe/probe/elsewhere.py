"""Does a program compute in other threads or processes, where nothing is recorded?"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

THREADS, PROCESSES = "other threads", "other processes"


class Elsewhere:
    """Notices whether a program has started threads, while ``heard`` is open, or processes for which it has waited."""

    def __init__(self) -> None:
        self.has_threads = False
        self.seconds = _seconds_of_children()

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Notice threads that begin inside this context."""
        before: Any = threading.gettrace()

        def began(frame: FrameType, event: str, arg: Any) -> Any:
            self.has_threads = True
            sys.settrace(before)
            return None if before is None else before(frame, event, arg)

        threading.settrace(began)
        try:
            yield
        finally:
            if threading.gettrace() is began:
                threading.settrace(before)

    @property
    def started(self) -> list[str]:
        """What was started, in words; empty if nothing was."""
        return [THREADS] * self.has_threads + [PROCESSES] * (_seconds_of_children() > self.seconds)


def _seconds_of_children() -> float:
    # The processor time of the processes that were started and waited for.
    times = os.times()
    return times.children_user + times.children_system
