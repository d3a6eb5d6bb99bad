"""Gradients of all parameters that are zero, or were lost: multiplied by 0, cancelled, or cleared before the step."""

from __future__ import annotations

from collections.abc import Iterator

import numpy

from backprobe.rules.alert import Alert, Seen, alert
from backprobe.rules.history import History, Mask, Matrix, lasting
from backprobe.rules.rule import RULES

LASTING, BEFORE = 5, 20  # steps
LATE = 15  # steps in which the loss is 0 as well: so may that of a margin be
LOST = RULES["zero_gradients"].threshold  # of the smallest norm in the steps before
OF_LOSS = "a loss that is multiplied by 0 or does not depend on the parameters, or a mask that leaves nothing of it"
OF_STEP = "whether several losses or passes cancel, or gradients are cleared between backward() and optimizer.step()"


def check(history: History) -> Iterator[Alert]:
    used = history.used
    if not used.rows or len(history.steps) < LASTING:
        return
    squares, count = used["squares"], used["count"]
    has: Mask = numpy.asarray((count > 0).any(axis=0))
    norm = numpy.sqrt(numpy.nansum(squares, axis=0))
    is_finite = ~(used["nan"] + used["posinf"] + used["neginf"] > 0).any(axis=0)
    is_zero = has & (norm == 0) & is_finite
    loss = _loss(history)
    yield from _all_zero(history, is_zero, loss)
    yield from _lost(history, numpy.where(has & is_finite, norm, numpy.nan), loss)
    yield from _none(history, has)


def _loss(history: History) -> Matrix:
    # The loss in each step; NaN where it is not known.
    found = numpy.full(len(history.steps), numpy.nan)
    if history.loss is not None:
        _, steps, numbers = history.loss
        _, here, there = numpy.intersect1d(history.steps, steps, return_indices=True)
        found[here] = numbers[there]
    return found


def _all_zero(history: History, is_zero: Mask, loss: Matrix) -> Iterator[Alert]:
    # A loss of zero gives gradients of zero, as where a margin is kept: then it must have come at once, and last.
    soon = _held(is_zero & (loss != 0), LASTING)
    late = _held(is_zero, LATE)
    for back in range(LATE, LATE + BEFORE):
        late[back:] &= ~is_zero[:-back]
        late[: BEFORE + LATE - 1] = False
    held = soon | late
    if held.any():
        at = int(held.argmax())
        yield from _said(history, at, 0.0, "zero")


def _lost(history: History, norm: Matrix, loss: Matrix) -> Iterator[Alert]:
    width = BEFORE + LASTING
    if len(norm) < width:
        return
    windows = numpy.lib.stride_tricks.sliding_window_view(norm, width)
    losses = abs(numpy.lib.stride_tricks.sliding_window_view(loss, width))
    with numpy.errstate(all="ignore"):
        least, most = windows[:, :BEFORE].min(axis=1), windows[:, BEFORE:].max(axis=1)
        is_there = ~(losses[:, BEFORE:].mean(axis=1) < losses[:, :BEFORE].mean(axis=1) / 10)
        is_there |= (losses[:, BEFORE:] == 0).all(axis=1)  # what cancels gives a loss of 0, and no minimum does
        held = (most < LOST * least) & (most > 0) & is_there
    if held.any():
        at = int(held.argmax())
        ratio = float(most[at] / least[at])
        yield from _said(history, at + width - 1, ratio, f"lost: at most {ratio:.1g} of what they were")


def _none(history: History, has: Mask) -> Iterator[Alert]:
    # In steps in which gradients came to modules, and parameters were measured.
    if not history.gradients.rows or not history.parameters.rows or not has[: BEFORE // 2].all():
        return
    is_gone = ~has & history.parameters.is_there.any(axis=0) & history.gradients.is_there.any(axis=0)
    held = _held(is_gone, LASTING)
    if held.any() and has.any():
        at = int(held.argmax())
        first = history.used.names[0]
        headline = "no parameter has a gradient as the optimizer steps, though gradients come to what modules return"
        remedy = "zero_grad() between backward() and optimizer.step()"
        seen = [Seen(int(history.steps[at]), first, 0.0)]
        yield from alert("zero_gradients", seen, "grad.count", headline, remedy)


def _held(mask: Mask, count: int) -> Mask:
    held: Mask = lasting(mask[None], count)[0]
    return held


def _said(history: History, at: int, number: float, how: str) -> list[Alert]:
    come = history.gradients["squares"][:, at] if history.gradients.rows else numpy.zeros(0)
    others = bool((come > 0).any())
    headline = f"the gradients of all parameters are {how}" + ", though some come to what modules return" * others
    remedy = f"{OF_STEP}; or {OF_LOSS}" if others else OF_LOSS
    seen = [Seen(int(history.steps[at]), history.used.names[0], number)]
    return alert("zero_gradients", seen, "grad.rms", headline, remedy)
