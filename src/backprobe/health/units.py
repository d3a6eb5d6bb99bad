"""Dead and saturated units: activations that are constant for all inputs and pass no gradient on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from backprobe.findings.report import Finding
from backprobe.health.record_arrays import RecordArrays
from backprobe.rules.rule import RULES
from backprobe.rules.units import IS_DEAD, OF_DEAD, dead

HALF = RULES["dead_units"].threshold
OFF = "over {} rows their output is exactly 0, and so is {}"
SATURATED = "saturated means: |input of tanh| > 9.5, where float32 rounds to ±1 (for sigmoid: twice that)"
END_OF_TANH = 9.5
FEWEST = 8  # distinct rows: a healthy unit is 0 for all of them by chance in one of 2**8 batches


def check(arrays: RecordArrays) -> Iterator[Finding]:
    """Check each entry that is a ReLU, a tanh or a sigmoid of its only input, or the result of a layer."""
    for at, (entry, value) in enumerate(zip(arrays.entries, arrays.values, strict=True)):
        if value is None or value.dtype.kind == "c" or value.ndim < 2 or arrays.grads[at] is None:
            continue  # an entry without a gradient cannot pass one to its units
        source = arrays.only_input(at)
        before = None if source is None else arrays.values[source]
        trained = _own_parameters(arrays, at)
        if _is_relu(entry.op, value, before) or trained:
            rows = _rows(value)
            is_off = (rows == 0).all(axis=0)
            if trained:
                is_off &= (rows.min() >= 0) & _are_still(arrays, at, trained)
            off_units, units = int(is_off.sum()), rows.shape[1]
            if units > 1 and off_units > HALF * units and _are_enough(value if before is None else before):
                derivative = f"the gradient of {arrays.names(trained)} for them" if trained else "their derivative"
                off = OFF.format(len(rows), derivative)
                share = float((value == 0).mean())
                is_whole = bool(dead(*map(numpy.asarray, (share, value.min(), value.size))))
                kind = "dead" if is_whole else "dead_units"
                headline = IS_DEAD if is_whole else f"{off_units} of {units} units of {{name!r}} are dead"
                said = headline.format(name=entry.name, number=f"{share:.3g}")
                yield Finding(kind, entry.name, said, entry.source, (RULES[kind].means, off), (), OF_DEAD)
        elif before is not None and (end := _end(value, before, entry.dtype)):
            share = float((numpy.abs(before) > end).mean())
            if share > HALF:
                facts = (SATURATED, f"{share:.0%} of its inputs are beyond ±{end:g}")
                remedy = "smaller weights before it, or normalisation"
                yield Finding("saturated", entry.name, f"{entry.name!r} is saturated", entry.source, facts, (), remedy)


def _own_parameters(arrays: RecordArrays, at: int) -> list[int]:
    # Return the parameters of a layer with a built-in activation, which train its units. Keras has such layers:
    # ``Dense(8, activation="relu")`` returns the result of the activation.
    value: Any = arrays.values[at]
    units = value.shape[-1:] if value.ndim < 4 else value.shape[1:2]  # the same axis as in _rows
    own = [one for one in arrays.graph.inputs[at] if one in arrays.graph.parameters and arrays.grads[one] is not None]
    return [one for one in own if arrays.grads[one].shape[-1:] == units]


def _are_still(arrays: RecordArrays, at: int, trained: list[int]) -> Any:
    # Return a mask of the units that receive a gradient, but whose parameters get none.
    is_still = _rows(arrays.grads[at]).any(axis=0)
    for one in trained:
        back = arrays.grads[one]
        is_still &= ~back.reshape(-1, back.shape[-1]).any(axis=0)
    return is_still


def _is_relu(op: str, value: Any, before: Any) -> bool:
    # Recognise a ReLU by its name, or by its numbers: the maximum of the input and 0.
    if op in ("relu", "relu_"):
        return True
    return before is not None and bool((before < 0).any()) and numpy.array_equal(value, numpy.maximum(before, 0))


def _are_enough(given: Any) -> bool:
    # Are there enough distinct rows? Equal rows, such as padding, count as one sample. If all numbers are zero, equal
    # rows prove nothing, and each row counts.
    rows = _rows(given)
    different = {row.tobytes() for row in rows} if rows.any() else rows
    return len(different) >= FEWEST


def _rows(value: Any) -> Any:
    # The value with one row for each sample. Units are the last axis, or the channel axis of images.
    axis = 1 if value.ndim >= 4 else value.ndim - 1
    return numpy.moveaxis(value, axis, -1).reshape(-1, value.shape[axis])


def _end(value: Any, before: Any, dtype: str | None) -> float:
    # Return the magnitude of the input above which tanh or sigmoid is saturated; 0 for any other operation. A tanh is
    # recognised only if some input exceeds 1, because for small inputs it equals the identity.
    tolerance = {"float64": 1e-12, "float32": 1e-5}.get(dtype or "", 1e-2)
    if numpy.allclose(value, numpy.tanh(before), atol=tolerance, rtol=0) and numpy.abs(before).max() > 1:
        return END_OF_TANH
    sigmoid = 0.5 * (1 + numpy.tanh(before / 2))
    return 2 * END_OF_TANH if numpy.allclose(value, sigmoid, atol=tolerance, rtol=0) else 0.0
