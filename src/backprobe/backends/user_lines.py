"""Finds the program's own frames and lines among the running frames."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from types import FrameType, TracebackType

from backprobe.record.source import Source
from backprobe.source.user_code import CONVERTED, package

Place = tuple[str, int]
"""A line of code, as file and line number."""


def callers(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame and its callers, innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def users_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Return the user's own frames among a frame and its callers, innermost first."""
    return (one for one in callers(frame) if package(one.f_code.co_filename) is None)


def users_place(frame: FrameType | None) -> Place | None:
    """Return the innermost line of user code in a frame and its callers, as file and number; None if there is none."""
    users = next(users_frames(frame), None)
    return None if users is None else (users.f_code.co_filename, users.f_lineno)


def users_line(frame: FrameType | None) -> Source | None:
    """Return the innermost line of user code in a frame and its callers; None if there is none."""
    place = users_place(frame)
    return None if place is None else source_at(*place)


def calling_line(frame: FrameType | None) -> Source | None:
    """Return the innermost line of user code in a frame and its callers. Return None if there is none, or if code that
    TensorFlow has converted is closer, because its line numbers differ from the program's.
    """
    for one in callers(frame):
        if CONVERTED in one.f_code.co_filename:
            return None
        if package(one.f_code.co_filename) is None:
            return source_at(one.f_code.co_filename, one.f_lineno)
    return None


def users_line_of(step: TracebackType | None) -> Source | None:
    """Return the innermost line of the program's own code in a traceback; None if there is none."""
    found = None
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        found = source_at(file, step.tb_lineno) if package(file) is None else found
        step = step.tb_next
    return found


def outer_place(step: TracebackType | None) -> Place | None:
    """Return the line of the program in a traceback from which it first calls a library, or its innermost line if it
    calls none; None if there is no line of the program.
    """
    found = None
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        if package(file) is None:
            found = file, step.tb_lineno
        elif found is not None:
            return found
        step = step.tb_next
    return found


def source_at(file: str, line: int) -> Source:
    return Source(file, line, linecache.getline(file, line).strip())
