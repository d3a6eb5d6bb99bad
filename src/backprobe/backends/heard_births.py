"""An operation of a framework that made NaN or Inf of less, heard while a program runs again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import FrameType
from typing import Any


@dataclass(frozen=True)
class HeardBirth:
    """What the framework calls the operation, its operands by name and its result, as NumPy arrays.

    ``lines`` are the files and lines that called it, the innermost first. ``is_backward`` says that the framework ran
    it to compute gradients: those of an operation that ``forward_lines`` called, where it tells.
    """

    operation: str
    operands: Sequence[tuple[str, Any]]
    result: Any
    lines: Sequence[tuple[str, int]]
    is_backward: bool = False
    forward_lines: Sequence[tuple[str, int]] = ()


MOST = 10**7  # numbers of what is looked at

HearBirths = Callable[[Callable[[HeardBirth], None]], AbstractContextManager[Any]]
"""Within this context each such operation is told to a function. A program computes it in other steps then, perhaps, so
it is for a run that is made for that alone."""


def lines_above(frame: FrameType | None) -> list[tuple[str, int]]:
    """The files and lines of a frame and of all that called it, the innermost first."""
    found: list[tuple[str, int]] = []
    while frame is not None:
        found.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return found
