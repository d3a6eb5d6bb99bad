"""Errors that the program on a command line raises: shown as Python shows them, without frames of ours."""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType

import click

import backprobe
from backprobe.show.printing import echo
from backprobe.source.tracebacks import is_mistake_of_ours, steps, without

REFUSED, RAISED = 2, 3
"""The exit statuses for bad input and all that is ours, and where the program raised; 1 is for findings."""
OWN = tuple(str(Path(module.__file__ or "").parent) + "/" for module in (backprobe, click))


def shown(error: Exception) -> int:
    """Show an error as Python would: the exit status. One that arose in backprobe itself is shown whole."""
    if not is_mistake_of_ours(error):
        show(error)
        return RAISED
    sys.excepthook(type(error), error, error.__traceback__)
    echo("This is a mistake in backprobe, not in your program. Please report it with the lines above.", err=True)
    return REFUSED


def show(error: BaseException) -> None:
    """Show an error, and those that it came from, without the frames that are not of the program."""
    from backprobe.explain.rebound import rebound_note  # with all that explains: for the viewer's server too much

    one: BaseException | None = error
    seen: set[int] = set()
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        one.__traceback__ = _of_program(one.__traceback__)
        one = one.__cause__ or one.__context__
    note = rebound_note(error)  # also where no probe has seen the error, as in a file that is imported
    if note is not None and note not in getattr(error, "__notes__", ()):
        error.add_note(note)
    sys.excepthook(type(error), error, error.__traceback__)


def _of_program(trace: TracebackType | None) -> TracebackType | None:
    # A traceback without frames of ours, without what called us, and without what loaded the program's file.
    every = list(steps(trace))
    first = next((at for at, one in enumerate(every) if _is_own(one)), 0)
    loading = {id(one) for one in every[:first]}
    for one in every[first:]:
        if not _is_own(one) and not one.tb_frame.f_code.co_filename.startswith("<frozen "):
            break
        loading.add(id(one))
    return without(trace, lambda one: id(one) in loading or _is_own(one))


def _is_own(step: TracebackType) -> bool:
    return step.tb_frame.f_code.co_filename.startswith(OWN)
