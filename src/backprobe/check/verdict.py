"""The verdict on one call: which of its gradients are wrong, how right the others are, and what could not be judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from backprobe.backends.again import Operation
from backprobe.check.judge import Judge, Unjudged
from backprobe.check.narrow import Element, Wrong, narrow


@dataclass
class Verdict:
    """What is known of one call when it was judged.

    ``error`` is the largest of those that were found to be no more than noise. ``unjudged`` says why nothing of the
    call was judged, ``notes`` what of it was not.
    """

    wrong: list[Wrong] = field(default_factory=list)
    error: float = 0.0
    notes: list[str] = field(default_factory=list)
    unjudged: str = ""


def judge(operation: Operation) -> Verdict:
    """Compare the derivative of a call with differences of it."""
    verdict = Verdict()
    try:
        _judge(operation, verdict)
    except Unjudged as error:
        verdict.unjudged = str(error)
    return verdict


def _judge(operation: Operation, verdict: Verdict) -> None:
    judge = Judge(operation)
    directions = [judge.direction(at) for at in range(len(judge.values))]
    outline = judge.outline(directions)
    for count, why in ((outline.kinked, "at a kink, where one-sided differences differ"),
                       (outline.unsettled, "where differences do not settle")):  # fmt: skip
        if count:
            verdict.notes.append(f"{count} of {len(judge.at_rest)} of its outputs are {why}")
    cotangent = judge.cotangent(outline.judged)
    gradients = judge.pull(cotangent)
    for at, direction in enumerate(directions):
        found = outline.slopes[at]
        if not numpy.isfinite(gradients[at]).all():
            _judge_infinite(judge, at, outline.judged, gradients, verdict)
            direction = numpy.where(numpy.isfinite(gradients[at]), direction, 0.0)
            gradients[at] = numpy.where(numpy.isfinite(gradients[at]), gradients[at], 0.0)
            found = judge.slope(at, direction)
        compared = judge.compare(found, cotangent, gradients[at], direction)
        wrong = _confirmed(judge, at, outline.judged) if compared.differs else None
        if wrong is None:
            verdict.error = max(verdict.error, compared.error)
        else:
            verdict.wrong.append(wrong)


def _confirmed(judge: Judge, at: int, judged: Any) -> Wrong | None:
    """Another direction, other steps: noise that was small by chance once is not so twice."""
    direction = judge.direction(at)
    found = judge.slope(at, direction, judge.widest * 0.7)
    judged = judged & numpy.isfinite(found.error) & ~found.is_kinked
    cotangent = judge.cotangent(judged)
    gradients = judge.pull(cotangent)
    if not judge.compare(found, cotangent, gradients[at], direction).differs:
        return None
    return narrow(judge, at, cotangent, gradients)


def _judge_infinite(judge: Judge, at: int, judged: Any, gradients: Sequence[Any], verdict: Verdict) -> None:
    """Elements of a gradient that are not finite: right where the outputs that they move can't be judged."""
    infinite = ~numpy.isfinite(gradients[at])
    found = judge.slope(at, numpy.where(infinite, judge.direction(at), 0.0))
    count = int(infinite.sum())
    if (~judged & ((found.value != 0) | ~numpy.isfinite(found.error))).any() or not numpy.isfinite(found.error).all():
        verdict.notes.append(f"{count} elements of a gradient of it are not finite, and nor do differences settle there")
        return
    places = numpy.argwhere(infinite)[:3]
    shown = tuple(Element(tuple(map(int, p)), gradients[at][tuple(p)].item(), float("nan"), 0.0) for p in places)
    looks = f"{count} of its elements are not finite, and the outputs move as they should"
    verdict.wrong.append(Wrong(at, float("inf"), looks, shown, count, infinite.size))


