"""The state of a value or gradient, from good to bad: finite, unknown, Inf or NaN."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy

from backprobe.record.entries import Entry, GradStatus
from backprobe.record.nonfinite import Nonfinite


class Badness(IntEnum):
    """The states of a value or gradient; a larger number is worse."""

    FINITE = 0
    UNKNOWN = 1
    INF = 2
    NAN = 3

    @property
    def is_bad(self) -> bool:
        """Is the value or gradient certainly NaN or Inf?"""
        return self >= Badness.INF


WORDS = {Badness.INF: "Inf", Badness.NAN: "NaN"}
RECORDED = {"finite": Badness.FINITE, "inf": Badness.INF, "nan": Badness.NAN}


def of_numbers(numbers: Any) -> Badness:
    """The state of a NumPy array: NaN if it contains NaN, else Inf if it contains Inf, else finite."""
    return (
        Badness.NAN if numpy.isnan(numbers).any() else Badness.FINITE if numpy.isfinite(numbers).all() else Badness.INF
    )


def of_count(count: Nonfinite | None) -> Badness:
    """The state of a tensor, from its counts of NaN and Inf."""
    if count is None:
        return Badness.UNKNOWN
    return Badness.NAN if count.nan else Badness.INF if count.inf else Badness.FINITE


def of_value(entry: Entry) -> Badness:
    """The state of an entry's value: finite, unknown, Inf or NaN."""
    if entry.status is GradStatus.NOT_TENSOR:  # a literal float("inf") within a line counts as part of the line
        held = None if entry.name.endswith("()") else number(entry.held)
        return Badness.FINITE if held is None else of_numbers(held)
    if entry.status is GradStatus.NOT_FLOAT:
        return Badness.FINITE
    return Badness.UNKNOWN if entry.finiteness is None else of_count(entry.finiteness.value)


def of_grad(entry: Entry) -> Badness:
    """The state of an entry's gradient; finite if there is none or its numbers are unknown."""
    if entry.status is not GradStatus.OK or entry.finiteness is None:
        return Badness.FINITE
    return of_count(entry.finiteness.grad)


def number(value: object) -> Any:
    """Convert a plain number to an array; None for anything else, and for integers beyond the range of floats."""
    if not isinstance(value, int | float | complex):
        return None
    try:
        return numpy.asarray(value, complex if isinstance(value, complex) else float)
    except OverflowError:
        return None
