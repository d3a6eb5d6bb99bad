"""Counts NaN and Inf in all values and gradients of a record at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from backprobe.backends.tensors import Arrays
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.nonfinite import Finiteness, Nonfinite


def judged(record: Record, arrays: Arrays) -> Record:
    """Return the record with the counts of NaN and Inf in each value and gradient.

    They are counted after the run. If a value was overwritten, and the write was observed, a copy of the value is
    counted. A value overwritten by an unobserved write is not counted.
    """
    held = [_tensors(entry, arrays) for entry in record.entries]
    counts = iter(arrays.nonfinite([tensor for both in held for tensor in both if tensor is not None]))
    entries = []
    for entry, both in zip(record.entries, held, strict=True):
        value, grad = (None if tensor is None else next(counts) for tensor in both)
        made = entry.finiteness.made if entry.finiteness is not None else None
        entries.append(replace(entry, finiteness=Finiteness(value, grad, made)))
    return replace(record, entries=tuple(entries))


def without_moved(record: Record, finite: Collection[str], moved: Collection[str]) -> Record:
    """Return the record without the counts of parameters whose counts may have been others earlier in the run.

    A parameter has only one entry, but calls after an optimizer's step read other numbers than calls before it. If a
    parameter is finite now, its count is removed if it is in ``moved``, the names of parameters with an observed write.
    Otherwise it is removed if the parameter is in ``finite``, those that were finite when the program began.
    """

    def of_all_calls(entry: Entry) -> Entry:
        known = entry.finiteness
        if known is None or known.value is None or entry.name not in (moved if known.value.is_finite else finite):
            return entry
        return replace(entry, finiteness=replace(known, value=None))

    return replace(record, entries=tuple(map(of_all_calls, record.entries)))


def unfit(held: Mapping[str, Any], arrays: Arrays) -> Mapping[str, Nonfinite]:
    """Return the counts for each named tensor that contains NaN or Inf now."""
    counts = arrays.nonfinite(list(held.values()))
    return {name: count for name, count in zip(held, counts, strict=True) if count and not count.is_finite}


def _tensors(entry: Entry, arrays: Arrays) -> tuple[Any, Any]:
    value = entry.held if arrays.is_tensor(entry.held) else None
    return value, entry.held_grad if entry.status is GradStatus.OK else None
