"""Shows errors of the program on a command line as Python would, without our own frames."""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType

import click

import backprobe
from backprobe.show.printing import echo
from backprobe.source.tracebacks import is_mistake_of_ours, steps, without

REFUSED, RAISED = 2, 3
"""Exit statuses: for bad input and errors of our own, and for errors of the program. Findings exit with 1."""
OWN = tuple(str(Path(module.__file__ or "").parent) + "/" for module in (backprobe, click))


def shown(error: Exception) -> int:
    """Show an error as Python would, and return the exit status. An error of backprobe itself is shown in full."""
    if not is_mistake_of_ours(error):
        show(error)
        return RAISED
    sys.excepthook(type(error), error, error.__traceback__)
    echo("This is a mistake in backprobe, not in your program. Please report it with the lines above.", err=True)
    return REFUSED


def show(error: BaseException) -> None:
    """Show an error and its causes, without frames that do not belong to the program."""
    from backprobe.explain.rebound import rebound_note  # with all that explains: for the viewer's server too much

    one: BaseException | None = error
    seen: set[int] = set()
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        one.__traceback__ = _of_program(one.__traceback__)
        one = one.__cause__ or one.__context__
    note = rebound_note(error)  # also if no probe saw the error, as for one in a file that is imported
    if note is not None and note not in getattr(error, "__notes__", ()):
        error.add_note(note)
    sys.excepthook(type(error), error, error.__traceback__)


def _of_program(trace: TracebackType | None) -> TracebackType | None:
    # The traceback without our frames, without our callers, and without the frames that loaded the program's file.
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
