"""Gradients that low precision cannot hold: numbers below the smallest normal one, or flushed to zero."""

from __future__ import annotations

from collections.abc import Iterator

import numpy

from backprobe.findings.report import Finding
from backprobe.health.record_arrays import RecordArrays, listed

SMALLEST_NORMAL = {"float16": 6.103515625e-05, "bfloat16": 1.1754943508222875e-38}
HALF = 0.5
UNDERFLOW = (
    "judged underflow: more than half of the numbers that are not 0 are below the smallest normal one of {dtype}, "
    "{limit:.3g} (IEEE 754), where digits are lost"
)
FLUSHED = "all of them became 0: {names}, of gradients below that number"
REMEDY = "scale the loss (torch.amp.GradScaler), or take this part in float32 or bfloat16"


def check(patient: RecordArrays) -> Iterator[Finding]:
    """Look at the gradients of each low-precision dtype: one finding a dtype."""
    for dtype, limit in SMALLEST_NORMAL.items():
        places = [at for at, entry in enumerate(patient.entries) if entry.dtype == dtype]
        small = {at: share for at in places if (share := _lost(patient, at, limit)) > HALF}
        flushed = [at for at in places if is_flushed(patient, at)]
        if small or flushed:
            worst = max(small, key=small.__getitem__) if small else flushed[0]
            facts = [UNDERFLOW.format(dtype=dtype, limit=limit)]
            if small:
                facts.append(f"{small[worst]:.0%} of those of {patient.entries[worst].name!r}")
            if flushed:
                facts.append(FLUSHED.format(names=listed([patient.entries[at].name for at in flushed])))
            names = listed([patient.entries[at].name for at in (*small, *flushed)])
            entry = patient.entries[worst]
            headline = f"the gradients of {names} underflow in {dtype}"
            yield Finding("underflow", entry.name, headline, entry.source, tuple(facts), (), REMEDY)


def _lost(patient: RecordArrays, at: int, limit: float) -> float:
    """The share of the numbers of a gradient, those that are 0 left out, that are below a limit."""
    grad = patient.grad(at)
    size = numpy.abs(grad[grad != 0]) if grad is not None else numpy.empty(0)
    return float((size < limit).mean()) if size.size else 0.0


def is_flushed(patient: RecordArrays, at: int) -> bool:
    """Is a gradient 0 that comes from ones which are not, and already too small for their dtype?"""
    grad, limit = patient.grad(at), SMALLEST_NORMAL.get(patient.entries[at].dtype or "")
    if grad is None or limit is None or grad.any():
        return False
    given = [g for one in patient.consumers.get(at, ()) if (g := patient.grad(one)) is not None]
    return any(g.any() for g in given) and all(numpy.abs(g).max() < limit for g in given)
