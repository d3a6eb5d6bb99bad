"""Detects side effects outside of the process by audit events, and stops a run that the user did not ask for at the
first one.

https://docs.python.org/3/library/audit_events.html lists the events.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from backprobe.record.reasons import Note
from backprobe.source.user_code import CONVERTED

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGING = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "shutil.")
STARTING = ("subprocess.Popen", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn")
CONNECTING = ("socket.connect", "socket.bind", "socket.sendto", "urllib.Request", "http.client.connect")
OWN = ("__pycache__", CONVERTED, os.devnull)
"""Files that Python itself writes when it imports modules, those that TensorFlow imports converted code from, and the
null device.
"""


class StoppedAtEffect(BaseException):
    """Raised to stop a run at a side effect. It is a BaseException, so programs do not catch it with ``except
    Exception``.
    """

    def __init__(self, note: Note) -> None:
        super().__init__(str(note))
        self.note = note


class _Running(threading.local):
    name = ""  # the name of the program in this thread that must not have side effects
    stopped: StoppedAtEffect | None = None


RUNNING = _Running()


@contextmanager
def harmless(name: str) -> Iterator[None]:
    """Within this context the program with this name is stopped at its first side effect. Raises StoppedAtEffect.

    >>> try:
    ...     with harmless("f"):
    ...         input()
    ... except StoppedAtEffect as stop:
    ...     print(stop.note)
    f was not run again to look for useless gradients: it asks for input
    """
    _install()
    before = RUNNING.name, RUNNING.stopped
    RUNNING.name, RUNNING.stopped = name, None
    try:
        yield
        if RUNNING.stopped is not None:  # the program has caught the exception
            raise RUNNING.stopped
    finally:
        RUNNING.name, RUNNING.stopped = before


@cache
def _install() -> None:
    sys.addaudithook(_hear)


def _hear(event: str, args: tuple[Any, ...]) -> None:
    if not RUNNING.name:
        return  # no program is being checked
    effect = effect_of(event, args)
    if effect:
        RUNNING.stopped = StoppedAtEffect(Note("side_effect", {"name": RUNNING.name, "effect": effect}))
        raise RUNNING.stopped


def effect_of(event: str, args: tuple[Any, ...]) -> str:
    """Return the effect of an audit event that is visible outside of the process; empty if there is none.

    >>> effect_of("open", ("log.txt", "a", 0)), effect_of("open", ("log.txt", "r", 0)), effect_of("compile", ())
    ('opens log.txt for writing', '', '')

    Opening a folder has no effect: ``tempfile`` passes a folder to ``open``, with an opener that opens a file in it.
    That file has an event of its own.
    """
    if event == "open":
        path, mode, flags = (*args, "", 0)[:3]
        is_written = bool(set(str(mode or "")) & set("wax+")) or bool(int(flags or 0) & WRITING)
        named = isinstance(path, str | bytes | os.PathLike) and not any(own in os.fsdecode(path) for own in OWN)
        if named and is_written and os.path.isdir(path):
            return ""
        return f"opens {os.fsdecode(path)} for writing" if named and is_written else ""
    if event.startswith(CHANGING) and not (event == "os.mkdir" and os.path.isdir(args[0])):  # that one raises
        return "changes files"
    if event.startswith(STARTING):
        return "starts a process"
    if event.startswith(CONNECTING):
        return "connects to a network"
    return "asks for input" if event == "builtins.input" else ""
