"""The lines of the user's code that are running."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from types import FrameType

from backprobe.record.source import Source
from backprobe.source.user_code import package


def users_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """The user's own frames that a frame was called from, the innermost first."""
    while frame is not None:
        if package(frame.f_code.co_filename) is None:
            yield frame
        frame = frame.f_back


def users_line(frame: FrameType | None) -> Source | None:
    """The line in the user's code that a frame was called from."""
    for users in users_frames(frame):
        return source_at(users.f_code.co_filename, users.f_lineno)
    return None


def source_at(file: str, line: int) -> Source:
    return Source(file, line, linecache.getline(file, line).strip())
