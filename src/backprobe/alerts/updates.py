"""The size of the updates, as a part of the weights that they change."""

from __future__ import annotations

from collections.abc import Iterator

import numpy

from backprobe.alerts.alert import Alert, Seen, alert
from backprobe.alerts.history import History, Matrix, lasting

LARGE, SMALL = 0.25, 3e-5
LASTING, WAIT = 3, 20  # steps
BY_LARGE = (
    "large means: the norm of all updates is above a quarter of that of all weights, in 3 steps on end; about 1/1000 "
    "is usual (CS231n)"
)
BY_SMALL = (
    "small means: in none of the first 20 steps is the norm of all updates above 3e-5 of that of all weights; about "
    "1/1000 is usual (CS231n)"
)


def check(history: History) -> Iterator[Alert]:
    """Needs ``updates=True``."""
    share = ratio(history)
    if share is None:
        return
    is_large = lasting((share > LARGE)[None], LASTING)[0]
    if is_large.any():
        yield from _said(history, share, int(is_large.argmax()), "large")
    if len(share) >= WAIT and numpy.nanmax(share[:WAIT], initial=0) < SMALL:
        yield from _said(history, share, WAIT - 1, "small")


def ratio(history: History) -> Matrix | None:
    """The norm of all updates divided by that of all weights, by step; None where updates were not watched."""
    updates = history.updates
    if not updates.rows or not len(history.steps):
        return None
    weights = history.parameters.part([name for name in updates.names if name in set(history.parameters.names)])
    with numpy.errstate(all="ignore"):
        share: Matrix = numpy.sqrt(numpy.nansum(updates["squares"], axis=0) / numpy.nansum(weights["squares"], axis=0))
    return share


def _said(history: History, share: Matrix, at: int, how: str) -> list[Alert]:
    name = _most(history, at)
    seen = [Seen(int(history.steps[at]), name, float(share[at]))]
    headline = f"the updates are {how}: {{number}} of the weights in a step"
    threshold, means = (LARGE, BY_LARGE) if how == "large" else (SMALL, BY_SMALL)
    remedy = f"a {'lower' if how == 'large' else 'higher'} learning rate"
    return alert(f"{how}_updates", seen, "update.ratio", threshold, headline, [means], remedy)


def _most(history: History, at: int) -> str:
    """The parameter that is changed most in a step."""
    return history.updates.names[int(numpy.nanargmax(history.updates["squares"][:, at]))]
