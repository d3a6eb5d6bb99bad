"""How bad each value and gradient of a record is: finite, Inf, NaN, or not known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy

from backprobe.backends.tensors import Arrays
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.nonfinite import BackwardOp, Nonfinite
from backprobe.tracing.finiteness import judged


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
TOLD = {"finite": State.FINITE, "inf": State.INF, "nan": State.NAN}


@dataclass(frozen=True)
class States:
    """The states of all entries of a record, in their order."""

    record: Record
    values: Sequence[State]
    grads: Sequence[State]
    was_asked: bool  # nonfinite=True; otherwise they were judged only now

    @classmethod
    def of(cls, record: Record, arrays: Arrays) -> States:
        """Those that the recording has, or else of what it holds."""
        tensors = [entry for entry in record.entries if entry.status is not GradStatus.NOT_TENSOR]
        was_asked = all(entry.finiteness is not None for entry in tensors) and bool(tensors)
        if not was_asked:
            record = judged(record, arrays)
        return cls(record, tuple(map(_of_value, record.entries)), tuple(map(_of_grad, record.entries)), was_asked)

    def made(self, at: int) -> tuple[BackwardOp, ...]:
        """The operations in the backward of an entry that made NaN or Inf."""
        finiteness = self.record.entries[at].finiteness
        return () if finiteness is None else finiteness.made or ()

    @property
    def sees_operations(self) -> bool:
        """Did the framework let each operation of backward be seen?"""
        found = [e.finiteness for e in self.record.entries if e.finiteness is not None]
        return any(finiteness.made is not None for finiteness in found)


def of_numbers(numbers: Any) -> State:
    """How bad an array of NumPy's is."""
    return State.NAN if numpy.isnan(numbers).any() else State.FINITE if numpy.isfinite(numbers).all() else State.INF


def _of(count: Nonfinite | None) -> State:
    if count is None:
        return State.UNKNOWN
    return State.NAN if count.nan else State.INF if count.inf else State.FINITE


def _of_value(entry: Entry) -> State:
    if entry.status is GradStatus.NOT_TENSOR:  # float("inf") in the middle of a line is the line's own business
        return State.FINITE if entry.name.endswith("()") else _of_number(entry.held_value)
    if entry.status is GradStatus.NOT_FLOAT:
        return State.FINITE
    return State.UNKNOWN if entry.finiteness is None else _of(entry.finiteness.value)


def _of_grad(entry: Entry) -> State:
    has_none = entry.status is not GradStatus.OK or entry.finiteness is None
    return State.FINITE if has_none else _of(entry.finiteness.grad)  # type: ignore[union-attr]


def _of_number(number: Any) -> State:
    parts = (number.real, number.imag) if isinstance(number, complex) else (number,)
    floats = [part for part in parts if isinstance(part, float)]
    if any(map(math.isnan, floats)):
        return State.NAN
    return State.INF if any(map(math.isinf, floats)) else State.FINITE
