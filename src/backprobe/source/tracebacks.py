"""Removes backprobe's frames from the tracebacks of errors raised under a probe.

To understand an error of the program, a user needs the last frame and the user's own frames. Frames between these only
show how backprobe works. If backprobe raises an error on purpose, the raising frame stays. If the error is a bug in
backprobe, all frames stay.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Iterator
from types import TracebackType

from backprobe.errors import BackprobeError
from backprobe.source.user_code import package

PASSED_ON = re.compile(r"\(.*\*\w|\bgetattr\(")
"""Matches lines of backprobe that only forward arguments of the program, or read an attribute for the program."""


class FramesOfProgram:
    """A context that removes backprobe's frames from the traceback of an error raised in it: see ``leave_out_ours``."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None:
            leave_out_ours(error)


FRAMES_OF_PROGRAM = FramesOfProgram()


def leave_out_ours(error: BaseException) -> None:
    """Remove backprobe's frames from an error's traceback, unless the error is a mistake of backprobe. If backprobe
    itself raised the error, the raising frame stays, and a cause that was raised and caught inside backprobe is
    removed.
    """
    if not isinstance(error, BackprobeError):
        if not is_mistake_of_ours(error):
            error.__traceback__ = without(error.__traceback__, _is_ours)
        return
    *_, last = steps(error.__traceback__)
    error.__traceback__ = without(error.__traceback__, lambda step: step is not last and _is_ours(step))
    cause = error.__cause__
    if cause is not None and without(cause.__traceback__, _is_inside) is None:
        error.__cause__ = None  # the message already contains the text of the cause


def is_mistake_of_ours(error: BaseException) -> bool:
    """Did the error arise in backprobe's own code, in a line that does more than forward a call of the program?"""
    *_, last = steps(error.__traceback__)
    line = linecache.getline(last.tb_frame.f_code.co_filename, last.tb_lineno)
    return _is_ours(last) and not PASSED_ON.search(line)


def steps(trace: TracebackType | None) -> Iterator[TracebackType]:
    """Return the steps of a traceback, outermost first."""
    while trace is not None:
        yield trace
        trace = trace.tb_next


def without(trace: TracebackType | None, is_left_out: Callable[[TracebackType], bool]) -> TracebackType | None:
    """Return a traceback without some of its steps; None if no step is left."""
    rest = None
    for one in reversed(list(steps(trace))):
        if not is_left_out(one):
            rest = TracebackType(rest, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return rest


def _is_ours(step: TracebackType) -> bool:
    return package(step.tb_frame.f_code.co_filename) == "backprobe"


def _is_inside(step: TracebackType) -> bool:
    # Is the frame one of backprobe or of Python's standard library?
    return package(step.tb_frame.f_code.co_filename) in ("backprobe", "")
