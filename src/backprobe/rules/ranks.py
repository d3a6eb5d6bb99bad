"""The processes that have NaN or Inf while others have none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy

from backprobe.findings.phrasing import listed
from backprobe.rules.alert import Alert
from backprobe.storage.runs.merged import LOGGED, NOT_FINITE, RunReader

BEFORE = 20
"""The number of earlier steps in which a process with NaN or Inf is compared with the others."""
MORE = 2.0
"""Earlier numbers of a process with NaN or Inf are reported if they were at least this factor times the median of those
processes that have none.

Smaller differences are normal, because the batches of processes differ.
"""
SIZE = ("finite", "squares")


def with_ranks(one: Alert, reader: RunReader) -> Alert:
    """The alert, with the processes that have NaN or Inf in its step, if others have none."""
    if one.kind != "nonfinite" or len(reader.ranks) == 1:
        return one
    kind = LOGGED if one.field == LOGGED else one.field.partition(".")[0]
    columns = ("count", *NOT_FINITE, *SIZE)
    held = {
        rank: (steps, own)
        for rank, steps, own in reader.by_rank([(one.name, kind)], columns, one.step - BEFORE, one.step)
    }
    counts = {
        rank: {name: numbers[0, -1] for name, numbers in own.items()}
        for rank, (steps, own) in held.items()
        if steps[-1] == one.step
    }
    there = [rank for rank, own in counts.items() if own["count"]]
    sick = [rank for rank in there if any(counts[rank][name] for name in NOT_FINITE)]
    if not sick or len(sick) == len(there):
        return one
    others = len(there) - len(sick)
    has = f"rank {sick[0]} alone has it" if len(sick) == 1 else f"ranks {listed(sick)} have it"
    facts = [f"{has}, of {len(there):,} processes that have this name in the step"]
    if kind != LOGGED and others > 1:
        before = {rank: {name: own[name][0, steps < one.step] for name in SIZE} for rank, (steps, own) in held.items()}
        facts += _compared(kind, sick, before)
    return replace(one, facts=(facts[0], *one.facts, *facts[1:]), ranks=tuple(sick))


def _compared(kind: str, sick: Sequence[int], before: Mapping[int, Mapping[str, Any]]) -> list[str]:
    # Return a fact that says by which factor the numbers of the first process with NaN or Inf were larger than those of
    # the processes without, in the steps before. Empty if they were not much larger.
    rms = {
        rank: float(numpy.sqrt(own["squares"].sum() / own["finite"].sum()))
        for rank, own in before.items()
        if own["finite"].sum()
    }
    others = [number for rank, number in rms.items() if rank not in sick]
    median = float(numpy.median(others)) if others else 0.0
    ratio = rms[sick[0]] / median if sick[0] in rms and median > 0 else 0.0
    what = {"grad": "its gradients there were", "value": "its values there were"}.get(kind, "its numbers there were")
    return [f"{what} {ratio:.3g} x the median of its peers', in the {BEFORE} steps before"] if ratio >= MORE else []
