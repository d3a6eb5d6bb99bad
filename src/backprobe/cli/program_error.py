"""Errors that the program on a command line raises: shown as Python shows them, without frames of ours."""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import click

import backprobe
from backprobe.show.printing import echo

REFUSED, RAISED = 2, 3
"""The exit statuses for bad input and all that is ours, and where the program raised; 1 is for findings."""
OWN = tuple(str(Path(module.__file__ or "").parent) + "/" for module in (backprobe, click))
PASSED_ON = re.compile(r"\(.*\*\w")
"""A call with whatever arguments the program gave."""


def shown(error: Exception) -> int:
    """Show an error as Python would: the exit status. One that arose in backprobe itself is shown whole."""
    if not _is_ours(error):
        show(error)
        return RAISED
    sys.excepthook(type(error), error, error.__traceback__)
    echo("This is a mistake in backprobe, not in your program. Please report it with the lines above.", err=True)
    return REFUSED


def show(error: BaseException) -> None:
    """Show an error, and those that it came from, without the frames that are not of the program."""
    one: BaseException | None = error
    seen: set[int] = set()
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        one.__traceback__ = _of_program(one.__traceback__)
        one = one.__cause__ or one.__context__
    sys.excepthook(type(error), error, error.__traceback__)


def _of_program(step: TracebackType | None) -> TracebackType | None:
    """A traceback without frames of ours, without what called us, and without what loaded the program's file."""
    steps = list(_steps(step))
    first = next((at for at, one in enumerate(steps) if _is_own(one)), 0)
    kept = [one for one in steps[first:] if not _is_own(one)]
    while kept and kept[0].tb_frame.f_code.co_filename.startswith("<frozen "):
        del kept[0]
    rest = None
    for one in reversed(kept):
        rest = TracebackType(rest, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return rest


def _is_ours(error: BaseException) -> bool:
    """Did it arise in our own code? Not where that only passes on a call of the program."""
    *_, last = _steps(error.__traceback__)
    line = linecache.getline(last.tb_frame.f_code.co_filename, last.tb_lineno)
    return _is_own(last) and not PASSED_ON.search(line)


def _is_own(step: TracebackType) -> bool:
    return step.tb_frame.f_code.co_filename.startswith(OWN)


def _steps(step: TracebackType | None) -> Iterator[TracebackType]:
    while step is not None:
        yield step
        step = step.tb_next
