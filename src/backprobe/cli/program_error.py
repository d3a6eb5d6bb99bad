"""Prints errors of a user program as Python would, without stack frames of backprobe."""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType

import click

import backprobe
from backprobe.show.printing import echo
from backprobe.source.tracebacks import is_mistake_of_ours, steps, without

REFUSED, RAISED = 2, 3
"""Exit statuses:

REFUSED for bad input or a bug in backprobe, RAISED for an error of the program. Findings exit with 1.
"""
OWN = tuple(str(Path(module.__file__ or "").parent) + "/" for module in (backprobe, click))


def shown(error: Exception) -> int:
    """Print an error and return the exit status. An error inside backprobe is printed with its full traceback."""
    if not is_mistake_of_ours(error):
        show(error)
        return RAISED
    sys.excepthook(type(error), error, error.__traceback__)
    echo("This is a mistake in backprobe, not in your program. Please report it with the lines above.", err=True)
    return REFUSED


def show(error: BaseException) -> None:
    """Print an error and its causes, without the stack frames of backprobe, its callers and the import system."""
    # imported here because this import is large, and the viewer's server also imports this file
    from backprobe.explain.rebound import rebound_note

    one: BaseException | None = error
    seen: set[int] = set()
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        one.__traceback__ = _of_program(one.__traceback__)
        one = one.__cause__ or one.__context__
    # the note is computed here for an error that no probe saw, such as one raised while the file was imported
    note = rebound_note(error)
    if note is not None and note not in getattr(error, "__notes__", ()):
        error.add_note(note)
    sys.excepthook(type(error), error, error.__traceback__)


def _of_program(trace: TracebackType | None) -> TracebackType | None:
    # Remove the frames of backprobe, of its callers, and of the import system that loaded the program's file.
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
