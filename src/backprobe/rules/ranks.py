"""The process among several that has NaN or Inf where the others have none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy

from backprobe.findings.phrasing import listed
from backprobe.rules.alert import Alert
from backprobe.storage.runs.merged import LOGGED, RunReader

BEFORE = 20
"""Steps before, in which the process is compared with the others."""
MORE = 2.0
"""Times the median of the others: less is not said, since batches differ."""
NOT_FINITE = ("nan", "posinf", "neginf")


def with_ranks(one: Alert, reader: RunReader) -> Alert:
    """The alert, with the processes that have it in its step, where others do not."""
    if one.kind != "nonfinite" or len(reader.ranks) == 1:
        return one
    kind = LOGGED if one.field == LOGGED else one.field.partition(".")[0]
    counts = reader.by_rank((one.name, kind), ("count", *NOT_FINITE), one.step, one.step)
    there = [rank for rank, held in counts.items() if held["count"].sum()]
    sick = [rank for rank in there if sum(held.sum() for name, held in counts[rank].items() if name in NOT_FINITE)]
    if not sick or len(sick) == len(there):
        return one
    others = len(there) - len(sick)
    has = f"rank {sick[0]} alone has it" if len(sick) == 1 else f"ranks {listed(sick)} have it"
    facts = [f"{has}, of {len(there):,} processes that have this name in the step"]
    if kind != LOGGED and others > 1:
        facts += _compared(one, kind, sick, reader)
    return replace(one, facts=(facts[0], *one.facts, *facts[1:]), ranks=tuple(sick))


def _compared(one: Alert, kind: str, sick: Sequence[int], reader: RunReader) -> list[str]:
    # How much larger the first of them was than its peers, in the steps before.
    held = reader.by_rank((one.name, kind), ("finite", "squares"), one.step - BEFORE, one.step - 1)
    rms = {
        rank: float(numpy.sqrt(own["squares"].sum() / own["finite"].sum()))
        for rank, own in held.items()
        if own["finite"].sum()
    }
    others = [number for rank, number in rms.items() if rank not in sick]
    median = float(numpy.median(others)) if others else 0.0
    ratio = rms[sick[0]] / median if sick[0] in rms and median > 0 else 0.0
    what = {"grad": "its gradients there were", "value": "its values there were"}.get(kind, "its numbers there were")
    return [f"{what} {ratio:.3g} x the median of its peers', in the {BEFORE} steps before"] if ratio >= MORE else []
