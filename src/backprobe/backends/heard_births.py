"""A framework operation that made NaN from operands without NaN, or Inf from finite operands, observed while a program
runs again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from backprobe.backends.user_lines import callers


@dataclass(frozen=True)
class HeardBirth:
    """The framework's name of an operation, its operands by name and its result, as NumPy arrays.

    ``lines`` are the files and lines that called the operation, innermost first. ``is_backward`` says that the
    framework ran the operation to compute gradients. Then ``forward_lines`` are the lines of the forward operation, if
    the framework knows them.
    """

    operation: str
    operands: Sequence[tuple[str, Any]]
    result: Any
    lines: Sequence[tuple[str, int]]
    is_backward: bool = False
    forward_lines: Sequence[tuple[str, int]] = ()


MOST = 10**7  # the largest number of elements of an array that is examined

HearBirths = Callable[[Callable[[HeardBirth], None]], AbstractContextManager[Any]]
"""Within this context a function is called for each operation that makes NaN from operands without NaN, or Inf from
finite operands, as far as the framework reports it. Use it only around a run that is made for this purpose, because the
program may compute in different steps than usual.
"""


def lines_above(frame: FrameType | None) -> list[tuple[str, int]]:
    """Return the files and lines of a frame and all its callers, innermost first."""
    return [(one.f_code.co_filename, one.f_lineno) for one in callers(frame)]
