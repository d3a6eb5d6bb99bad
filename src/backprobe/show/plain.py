"""A recording as plain data, for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backprobe.backends.discover import load_arrays
from backprobe.backends.tensors import Arrays
from backprobe.findings.report import plain
from backprobe.record.brief import SMALL
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.held import Lost, plain_text


def plain_record(record: Record, outputs: Sequence[Entry]) -> dict[str, Any]:
    """The outputs, every entry in the order of execution, and the remarks. A large tensor has no ``numbers``."""
    arrays = load_arrays(record.backend)
    entries = [
        {
            "name": one.name,
            "aliases": list(one.aliases),
            "shape": plain(one.shape),
            "dtype": one.dtype,
            "source": plain(one.source),
            "value": plain_value(one.held, arrays),
            **_gradient(one, arrays),
            "gradients": {key: _gradient(one.of_output(key), arrays) for key in one.by_output},
        }
        for one in record.entries
    ]
    notes = [str(note) for note in record.notes]
    return {"outputs": [one.name for one in outputs], "entries": entries, "notes": notes}


def _gradient(entry: Entry, arrays: Arrays) -> dict[str, Any]:
    is_there = entry.status is GradStatus.OK and not entry.is_of_several
    gradient = plain_value(entry.held_grad, arrays) if is_there else None
    return {"status": str(entry.status), "reason": entry.reason, "gradient": gradient}


def plain_value(value: Any, arrays: Arrays) -> dict[str, Any] | None:
    """A value as plain data; None for a lost value, and for a tensor without readable numbers."""
    if isinstance(value, Lost):
        return None
    if not arrays.is_tensor(value):
        is_number = isinstance(value, float | complex) or (isinstance(value, int) and value.bit_length() < 64)
        return {"numbers": plain(value)} if is_number else {"text": plain_text(value)}
    summary = arrays.summary(value)
    if summary is None:
        return None
    numbers = arrays.numbers(value) if summary.size <= SMALL else None
    return {
        "numbers": None if numbers is None else plain(numbers.tolist()),
        "rms": plain(summary.rms),
        "largest": plain(summary.largest),
        "nonfinite": summary.nonfinite,
    }
