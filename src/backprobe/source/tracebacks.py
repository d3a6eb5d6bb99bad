"""Tracebacks of what is raised under a probe: the frames of the program, without ours between them.

An error of the program is read from its last line and the user's own lines; what stands between those is how backprobe
works. Of an error of ours that was meant, the frame that raised it stays. One that arose in backprobe by a mistake of
ours keeps every frame.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Iterator
from types import TracebackType

from backprobe.errors import BackprobeError
from backprobe.source.user_code import package

PASSED_ON = re.compile(r"\(.*\*\w|\bgetattr\(")
"""A call with whatever arguments the program gave, or an attribute that it asks for."""


class FramesOfProgram:
    """A context that takes the frames of backprobe out of the traceback of whatever is raised within it."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None:
            leave_out_ours(error)


FRAMES_OF_PROGRAM = FramesOfProgram()


def leave_out_ours(error: BaseException) -> None:
    """Take the frames of backprobe out of an error's traceback, and a cause that only they have seen."""
    if not isinstance(error, BackprobeError):
        if not is_mistake_of_ours(error):
            error.__traceback__ = without(error.__traceback__, _is_ours)
        return
    *_, last = steps(error.__traceback__)
    error.__traceback__ = without(error.__traceback__, lambda step: step is not last and _is_ours(step))
    cause = error.__cause__
    if cause is not None and without(cause.__traceback__, _is_inside) is None:
        error.__cause__ = None  # what it was known by is in the message; the context was suppressed before


def is_mistake_of_ours(error: BaseException) -> bool:
    """Did it arise in our own code? Not where that only passes on a call of the program."""
    *_, last = steps(error.__traceback__)
    line = linecache.getline(last.tb_frame.f_code.co_filename, last.tb_lineno)
    return _is_ours(last) and not PASSED_ON.search(line)


def steps(trace: TracebackType | None) -> Iterator[TracebackType]:
    """The steps of a traceback, the outermost first."""
    while trace is not None:
        yield trace
        trace = trace.tb_next


def without(trace: TracebackType | None, is_left_out: Callable[[TracebackType], bool]) -> TracebackType | None:
    """A traceback without some of its steps."""
    rest = None
    for one in reversed(list(steps(trace))):
        if not is_left_out(one):
            rest = TracebackType(rest, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return rest


def _is_ours(step: TracebackType) -> bool:
    return package(step.tb_frame.f_code.co_filename) == "backprobe"


def _is_inside(step: TracebackType) -> bool:
    # Is it ours, or of Python's own library?
    return package(step.tb_frame.f_code.co_filename) in ("backprobe", "")
