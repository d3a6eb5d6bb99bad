"""Progress of a long run: an occasional line on standard error, if that is a terminal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from backprobe.cli.output import is_asked
from backprobe.show.printing import echo

FIRST = 10.0
"""Seconds until the first line. The interval doubles after each line."""


@contextmanager
def progress(doing: Callable[[], str], first: float = FIRST) -> Iterator[None]:
    """Inside this context, print from time to time what is being done.

    Only a few complete lines are printed, which keeps the program's own output readable.
    """
    if is_asked("quiet") or not sys.stderr.isatty():
        yield
        return
    over = threading.Event()
    thread = threading.Thread(target=_report, args=(doing, first, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _report(doing: Callable[[], str], seconds: float, over: threading.Event) -> None:
    passed, wait = 0.0, seconds
    while not over.wait(wait):
        passed += wait
        time = f"{passed:.0f} s" if passed < 120 else f"{passed / 60:.0f} min"
        echo(f"backprobe: {doing()}, {time} (Ctrl-C: what is known so far)", err=True)
        wait = passed
