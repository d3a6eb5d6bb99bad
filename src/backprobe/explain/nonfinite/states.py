"""Degrees of a value or gradient: finite, not known, Inf or NaN."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy

from backprobe.record.entries import Entry, GradStatus
from backprobe.record.nonfinite import Nonfinite


class State(IntEnum):
    """The worse, the higher."""

    FINITE = 0
    UNKNOWN = 1
    INF = 2
    NAN = 3

    @property
    def is_bad(self) -> bool:
        """Is it certainly not finite?"""
        return self >= State.INF


WORDS = {State.INF: "Inf", State.NAN: "NaN"}
RECORDED = {"finite": State.FINITE, "inf": State.INF, "nan": State.NAN}


def of_numbers(numbers: Any) -> State:
    """How bad a NumPy array is."""
    return State.NAN if numpy.isnan(numbers).any() else State.FINITE if numpy.isfinite(numbers).all() else State.INF


def of_count(count: Nonfinite | None) -> State:
    """How bad a tensor is by its counts."""
    if count is None:
        return State.UNKNOWN
    return State.NAN if count.nan else State.INF if count.inf else State.FINITE


def of_value(entry: Entry) -> State:
    """How bad the value of an entry is."""
    if entry.status is GradStatus.NOT_TENSOR:  # float("inf") in the middle of a line is the line's own business
        held = None if entry.name.endswith("()") else number(entry.held)
        return State.FINITE if held is None else of_numbers(held)
    if entry.status is GradStatus.NOT_FLOAT:
        return State.FINITE
    return State.UNKNOWN if entry.finiteness is None else of_count(entry.finiteness.value)


def of_grad(entry: Entry) -> State:
    """How bad the gradient of an entry is; finite where there is none."""
    if entry.status is not GradStatus.OK or entry.finiteness is None:
        return State.FINITE
    return of_count(entry.finiteness.grad)


def number(value: object) -> Any:
    """A plain number as an array; None for anything else, and for an integer that no float holds."""
    if not isinstance(value, int | float | complex):
        return None
    try:
        return numpy.asarray(value, complex if isinstance(value, complex) else float)
    except OverflowError:
        return None
