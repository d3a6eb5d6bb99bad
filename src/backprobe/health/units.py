"""Dead and saturated units: activations that say the same whatever comes in, and let no gradient through."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from backprobe.findings.report import Finding
from backprobe.health.record_arrays import RecordArrays

HALF = 0.5
DEAD = "judged dead: a unit of a ReLU that is 0 in the whole batch, where more than half of a layer's are"
SATURATED = "judged saturated: |input of tanh| > 9.5, where float32 knows nothing but ±1 (of sigmoid: twice that)"
END_OF_TANH = 9.5
FEWEST = 8  # rows that differ: a healthy unit is silent by chance in 1 of 2**8 batches of that size


def check(patient: RecordArrays) -> Iterator[Finding]:
    """Look at each entry that is a ReLU, a tanh or a sigmoid of what flows into it."""
    for at, entry in enumerate(patient.entries):
        value = patient.value(at)
        if value is None or value.dtype.kind == "c" or value.ndim < 2:
            continue
        source = patient.only_input(at)
        before = None if source is None else patient.value(source)
        if _is_relu(entry.op, value, before):
            dead, units = _dead(value)
            if units > 1 and dead > HALF * units and _are_enough(value if before is None else before):
                facts = (DEAD, f"its output is exactly 0 over {value.size // units} rows, and so is its derivative")
                remedy = "a lower learning rate, a bias that is not negative at the start, or leaky_relu"
                headline = f"{dead} of {units} units of {entry.name!r} are dead"
                yield Finding("dead", entry.name, headline, entry.source, facts, (), remedy)
        elif before is not None and (end := _end(entry.op, value, before, entry.dtype)):
            share = float((numpy.abs(before) > end).mean())
            if share > HALF:
                facts = (SATURATED, f"{share:.0%} of its inputs are beyond ±{end:g}")
                remedy = "smaller weights before it, or a normalisation"
                yield Finding("saturated", entry.name, f"{entry.name!r} is saturated", entry.source, facts, (), remedy)


def _is_relu(op: str, value: Any, before: Any) -> bool:
    """By its name, or by what it does: the larger of its input and 0."""
    if op in ("relu", "relu_"):
        return True
    return before is not None and bool((before < 0).any()) and numpy.array_equal(value, numpy.maximum(before, 0))


def _are_enough(given: Any) -> bool:
    """Are there as many rows that differ? Equal ones, such as padding, are one sample.

    Where nothing but zeros is known it is not told, and rows are counted as they are.
    """
    rows = numpy.moveaxis(given, _axis(given), -1).reshape(-1, given.shape[_axis(given)])
    if not rows.any():
        return len(rows) >= FEWEST
    different: set[bytes] = set()
    for row in rows:
        different.add(row.tobytes())
        if len(different) >= FEWEST:
            return True
    return False


def _axis(value: Any) -> int:
    """Along which units lie: the last axis, of images their channels."""
    return 1 if value.ndim >= 4 else int(value.ndim) - 1


def _dead(value: Any) -> tuple[int, int]:
    """How many units are 0 in every row, of how many."""
    axis = _axis(value)
    others = tuple(one for one in range(value.ndim) if one != axis)
    return int((value == 0).all(axis=others).sum()), value.shape[axis]


def _end(op: str, value: Any, before: Any, dtype: str | None) -> float:
    """Beyond which input an activation is saturated; 0 for what is none."""
    tolerance = {"float64": 1e-12, "float32": 1e-5}.get(dtype or "", 1e-2)
    if numpy.allclose(value, numpy.tanh(before), atol=tolerance, rtol=0) and _is_curved(before):
        return END_OF_TANH
    sigmoid = 0.5 * (1 + numpy.tanh(before / 2))
    return 2 * END_OF_TANH if numpy.allclose(value, sigmoid, atol=tolerance, rtol=0) else 0.0


def _is_curved(before: Any) -> bool:
    """Is the input large enough for a tanh of it to be anything but the input itself?"""
    return bool(numpy.abs(before).max() > 1)
