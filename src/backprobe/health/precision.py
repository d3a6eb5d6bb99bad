"""Gradients that are too small for their dtype: subnormal, or flushed to zero."""

from __future__ import annotations

from collections.abc import Iterator

import numpy

from backprobe.findings.report import Finding
from backprobe.health.record_arrays import RecordArrays

SMALLEST_NORMAL = {"float16": 6.103515625e-05, "bfloat16": 1.1754943508222875e-38}
HALF = 0.5
UNDERFLOW = (
    "underflow means: more than half of the nonzero numbers are below the smallest normal {dtype} number, {limit:.3g} "
    "(IEEE 754), where digits are lost"
)
FLUSHED = "{names}: all numbers became 0, and the gradients they come from are below that number"
REMEDY = "scale the loss (torch.amp.GradScaler), or compute this part in float32 or bfloat16"


def check(arrays: RecordArrays) -> Iterator[Finding]:
    """Check the gradients in float16 and in bfloat16, with at most one finding for each dtype."""
    for dtype, limit in SMALLEST_NORMAL.items():
        places = [at for at, entry in enumerate(arrays.entries) if entry.dtype == dtype]
        small = {at: share for at in places if (share := _share_below(arrays, at, limit)) > HALF}
        flushed = [at for at in places if is_flushed(arrays, at)]
        if small or flushed:
            worst = arrays.entries[max(small, key=small.__getitem__) if small else flushed[0]]
            facts = [UNDERFLOW.format(dtype=dtype, limit=limit)]
            if small:
                facts.append(f"{max(small.values()):.0%} of the nonzero numbers of {worst.name!r}")
            if flushed:
                facts.append(FLUSHED.format(names=arrays.names(flushed)))
            headline = f"the gradients of {arrays.names([*small, *flushed])} underflow in {dtype}"
            yield Finding("underflow", worst.name, headline, worst.source, tuple(facts), (), REMEDY)


def _share_below(arrays: RecordArrays, at: int, limit: float) -> float:
    # The fraction of a gradient's nonzero numbers that are below a limit.
    grad = arrays.grads[at]
    size = numpy.abs(grad[grad != 0]) if grad is not None else numpy.empty(0)
    return float((size < limit).mean()) if size.size else 0.0


def is_flushed(arrays: RecordArrays, at: int) -> bool:
    """Is this gradient 0, although the gradients that it is computed from are not 0 but too small for their dtype?"""
    grad, limit = arrays.grads[at], SMALLEST_NORMAL.get(arrays.entries[at].dtype or "")
    if grad is None or limit is None or grad.any():
        return False
    given = [g for one in arrays.graph.consumers[at] if (g := arrays.grads[one]) is not None]
    return any(g.any() for g in given) and all(numpy.abs(g).max() < limit for g in given)
