"""An operation of a framework that made NaN or Inf from better operands, heard while a program runs again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import FrameType
from typing import Any


@dataclass(frozen=True)
class HeardBirth:
    """The framework's name of the operation, its operands by name and its result, as NumPy arrays.

    ``lines`` are the files and lines that called it, the innermost first. ``is_backward`` says that the framework ran
    it to compute gradients, namely those of the operation at ``forward_lines``, if the framework tells.
    """

    operation: str
    operands: Sequence[tuple[str, Any]]
    result: Any
    lines: Sequence[tuple[str, int]]
    is_backward: bool = False
    forward_lines: Sequence[tuple[str, int]] = ()


MOST = 10**7  # the largest array that is examined, in numbers

HearBirths = Callable[[Callable[[HeardBirth], None]], AbstractContextManager[Any]]
"""Within this context a function is called for each such operation. The program may compute in other steps meanwhile,
so this is only for a run made for this purpose.
"""


def lines_above(frame: FrameType | None) -> list[tuple[str, int]]:
    """The files and lines of a frame and of all its callers, the innermost first."""
    found: list[tuple[str, int]] = []
    while frame is not None:
        found.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return found
