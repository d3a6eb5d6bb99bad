"""The record of a weighted sum of several outputs, with NaN and Inf counted again if they were counted before."""

from __future__ import annotations

from backprobe.backends.discover import load_arrays
from backprobe.record.entries import Record
from backprobe.record.several import Weights, total
from backprobe.tracing.finiteness import judged


def summed(record: Record, weights: Weights) -> Record:
    """Return the record of a weighted sum of outputs. A weight of None means 1."""
    arrays = load_arrays(record.backend)
    found = total(record, weights, arrays)
    return judged(found, arrays) if any(entry.finiteness is not None for entry in record.entries) else found
