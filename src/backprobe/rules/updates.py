"""The size of the updates, as a part of the weights that they change."""

from __future__ import annotations

from collections.abc import Iterator

import numpy

from backprobe.rules.alert import Alert, Seen, alert
from backprobe.rules.history import History, Matrix, lasting
from backprobe.rules.rule import RULES

LARGE, SMALL, PULL = (RULES[kind].threshold for kind in ("large_updates", "small_updates", "shrinking_weights"))
LASTING, WAIT = 3, 20  # steps
MOST = 1e-3  # what is usual
GROWS = 1.25  # from a quarter of the steps to the next: in a linear warm-up 1.4, with momentum 0.9 after 20 steps 1.16
SHRUNK = 5  # steps
TURNED, ALMOST = 0.3, 0.9


def check(history: History) -> Iterator[Alert]:
    """Needs ``"update"`` in ``what=``."""
    share = ratio(history)
    if share is None:
        return
    is_large = lasting((share > LARGE)[None], LASTING)[0]
    if is_large.any():
        yield from _said(history, share, int(is_large.argmax()), "large")
    small = _small(share)
    if small is not None:
        yield from _said(history, share, small, "small")
    yield from _shrinking(history)


def _small(share: Matrix) -> int | None:
    # The step at which updates were shown to be small; those that still grow, as in a warm-up, are waited for.
    end = WAIT
    while end <= len(share):
        if not numpy.isfinite(share[:end]).all() or numpy.median(share[:end]) >= SMALL or share[:end].max() > MOST:
            return None
        third, last = share[end // 2 : end * 3 // 4], share[end * 3 // 4 : end]
        if last.mean() < GROWS * third.mean() or not third.any():
            return end - 1
        end *= 2
    return None


def _shrinking(history: History) -> Iterator[Alert]:
    # Do updates, since the first, do little but to make all weights smaller?
    updates = history.updates
    large = [name for name in updates.names if "bias" not in name.rpartition(".")[2]]
    weights = history.parameters.part([name for name in large if name in set(history.parameters.names)])
    if len(history.steps) <= SHRUNK or not weights.rows:
        return
    after, moved = weights["squares"], history.updates.part(weights.names)["squares"][:, 1:]
    with numpy.errstate(all="ignore"):  # |w + u|² = |w|² + 2 w·u + |u|², and a row has |w + u|²
        inward = (after[:, :-1] + moved - after[:, 1:]) / 2
        cosine = inward / numpy.sqrt(after[:, :-1] * moved)
        pull = numpy.nansum(inward, axis=0) / numpy.nansum(after[:, :-1], axis=0)
    known = numpy.isfinite(cosine) & (numpy.diff(history.steps) == 1)
    is_all = (known & (cosine > TURNED)).sum(axis=0) >= numpy.maximum(ALMOST * known.sum(axis=0), 1)
    held = lasting((numpy.logical_and.accumulate(is_all) & (pull > PULL))[None], SHRUNK)[0]
    if held.any():
        at = int(held.argmax())
        name = weights.names[int(numpy.nanargmax(inward[:, at]))]
        seen = [Seen(int(history.steps[at + 1]), name, float(pull[at]))]
        headline = "the weights shrink: each step takes {number} of them away, most of '{name}'"
        remedy = "a lower weight decay"
        yield from alert("shrinking_weights", seen, "update.rms", headline, remedy)


def ratio(history: History) -> Matrix | None:
    """The norm of all updates divided by that of all weights, by step; None where updates were not watched."""
    updates = history.updates
    if not updates.rows or not len(history.steps):
        return None
    weights = history.parameters.part([name for name in updates.names if name in set(history.parameters.names)])
    with numpy.errstate(all="ignore"):
        share: Matrix = numpy.sqrt(numpy.nansum(updates["squares"], axis=0) / numpy.nansum(weights["squares"], axis=0))
    is_broken = (updates["nan"] + updates["posinf"] + updates["neginf"] > 0).any(axis=0)
    return numpy.where(is_broken, numpy.nan, share)


def _said(history: History, share: Matrix, at: int, how: str) -> list[Alert]:
    name = _most(history, at)
    seen = [Seen(int(history.steps[at]), name, float(share[at]))]
    headline = f"the updates are {how}: {{number}} of the weights in a step"
    remedy = f"a {'lower' if how == 'large' else 'higher'} learning rate"
    return alert(f"{how}_updates", seen, "update.ratio", headline, remedy)


def _most(history: History, at: int) -> str:
    # The parameter that is changed most in a step.
    return history.updates.names[int(numpy.nanargmax(history.updates["squares"][:, at]))]
