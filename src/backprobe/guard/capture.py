"""Writes the failing step to a folder when a guard raises. A failure to write is only a warning."""

from __future__ import annotations

import os
import secrets
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from backprobe.backends.captures import Captures
from backprobe.backends.protocol import Backend
from backprobe.errors import BadOption, NotFinite, Unsupported
from backprobe.guard import text
from backprobe.record.disk import is_full, reached
from backprobe.record.entries import Record
from backprobe.record.options import check_folder
from backprobe.storage import steps
from backprobe.storage.step_writer import write

PROCESS = secrets.token_hex(8)
"""Identifies this process: a folder with a step is rejected at the start, unless this process has written the step."""


def check_path(path: Any, asked: str, instead: str) -> None:
    """Raise BadOption for a path to which no step can be written."""
    check_folder(path, "a step is written into a folder, whose path is a text", asked, instead)
    target = Path(path)
    try:
        is_there = os.path.lexists(target)
        nearest = reached(target)
        can_write = nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
    except OSError as error:
        raise BadOption(
            f"{target} cannot be written", asked=asked, found=error.strerror or str(error), next="a shorter name"
        ) from error
    known = steps.told(target) or {}
    if is_there and known.get("process") != PROCESS:
        found = "a step that another run has captured" if known else "a folder" if target.is_dir() else "a file"
        raise BadOption(
            f"{target} exists already",
            asked=asked,
            found=found,
            why="a step is written into a new folder",
            next=f"another folder, such as {f'{target}-2'!r}",
        )
    if not can_write:
        raise BadOption(
            f"{target} cannot be written",
            asked=asked,
            found=f"{nearest} is {'a folder that you may not write to' if nearest.is_dir() else 'a file'}",
            next=f"a folder that can be written, such as {target.name!r}",
        )


def captures_of(backend: Backend, asked: str) -> Captures:
    """The functions by which this framework captures steps. Raises Unsupported."""
    found = backend.captures
    if found is None:
        raise Unsupported(
            f"a step of {backend.title} cannot be captured",
            asked=asked,
            why="backprobe cannot write down its calls",
            next="with bp.guard(model): without capture=",
        )
    return found


class FailureCapture:
    """Writes the first failing step, and no later one."""

    def __init__(self, path: str | os.PathLike[str], model: Any, captures: Captures) -> None:
        number = captures.number()
        self.given = Path(path) if not number else Path(f"{os.fspath(path)}-{number}")
        self.path = self.given.absolute()  # absolute, because the program may change its current folder
        self.model, self.captures = model, captures

    def written(self, error: NotFinite, calls: Sequence[Any], record: Record | None, is_backward: bool) -> NotFinite:
        """Write the step, unless one was written before, and return the error to raise. A step that was written is
        named in a note on the error.
        """
        if os.path.lexists(self.path):
            return error
        shown = self.given if self.given.absolute() == self.path else self.path
        said = {
            "headline": error.headline,
            "report": str(error.report),
            "process": PROCESS,
        }
        try:
            step = self.captures.captured(self.model, calls, is_backward=is_backward)
            left_out = write(step, record, said, self.path, self.captures)
        except Exception as failure:  # noqa: BLE001  the training is told of NaN, whether or not it is written
            _warn(text.not_captured(shown, failure, is_full(failure)))
            return error
        function = step.model if step.is_function else ""
        error.add_note(text.captured(shown, left_out, steps.needed(left_out), function))
        return error


def _warn(message: str) -> None:
    # Warn on standard error if warnings are errors: such an error would replace the one that is about to be raised.
    try:
        warnings.warn(message, RuntimeWarning, stacklevel=2)
    except RuntimeWarning:
        if sys.stderr is not None:
            sys.stderr.write(f"RuntimeWarning: {message}\n")


__all__ = ["FailureCapture", "captures_of", "check_path"]
