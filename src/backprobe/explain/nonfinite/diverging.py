"""Trainings that diverge: the loss grew from step to step until a number exceeded the range of its dtype."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, takewhile

from backprobe.backends.dialects import dialect_of
from backprobe.explain.nonfinite.evidence import Evidence
from backprobe.explain.nonfinite.mechanism import OVERFLOW
from backprobe.explain.nonfinite.text import say
from backprobe.findings.report import Finding
from backprobe.record.names import strip

GROWTH = 1000
"""The factor by which the loss must have grown for a divergence.

The value is a choice: a loss that falls or fluctuates stays far below.
"""

FEWEST, MOST = 2, 4  # number of steps that are needed, and number of steps that are listed
Losses = Mapping[str, Sequence[float]]
"""The losses step by step, for each output by its name without counts."""


def losses(known: Evidence, until: int | None = None) -> dict[str, list[float]]:
    """Return the losses of one recording in order, by name: the versions of an output, as ``loss#0`` and ``loss#1``.

    Only versions that are one floating-point number count; with ``until``, only those before the entry at this
    position.
    """
    found: dict[str, list[float]] = {strip(known.entries[at].name): [] for at in known.record.outputs}
    for at, entry in enumerate(known.entries[:until]):
        numbers = known.numbers(at) if strip(entry.name) in found else None
        if numbers is not None and numbers.size == 1 and numbers.dtype.kind == "f":
            found[strip(entry.name)].append(float(numbers.reshape(-1)[0]))
    return found


def explained(findings: Sequence[Finding], seen: Losses, framework: str) -> list[Finding]:
    """The findings; if the loss had grown before an overflow or an unknown cause, the first finding says so."""
    grown = next(filter(None, map(_grown, seen.items())), "")
    if not grown or not findings or not _may_come_of_it(findings[0]):
        return list(findings)
    first, *others = findings
    is_known = first.kind != "unknown"  # if not, its remedy only shows the line
    smaller = say("smaller_steps", clipped=dialect_of(framework).clipped)
    remedy = first.remedy if is_known and first.remedy else smaller
    return [replace(first, facts=(*first.facts, grown), remedy=remedy), *others]


def _may_come_of_it(found: Finding) -> bool:
    return found.kind == "unknown" or (found.kind == "born" and found.fields.get("why") in OVERFLOW)


def _grown(loss: tuple[str, Sequence[float]]) -> str:
    # The words for how a loss grew while it was finite; empty unless its magnitude never fell and grew by the factor
    # ``GROWTH`` or more.
    name, every = loss
    before = [abs(one) for one in takewhile(math.isfinite, every)]
    if len(before) < FEWEST or not all(one <= other for one, other in pairwise(before)):
        return ""
    if before[-1] < GROWTH * before[0] or not before[0]:
        return ""
    told = ", ".join(f"{one:.3g}" for one in every[: len(before)][-MOST:])
    return say("diverging", name=repr(name), losses=told, more="… " * (len(before) > MOST))
