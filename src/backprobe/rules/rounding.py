"""Steps whose updates are lost in rounding: they change next to none of the numbers that have a gradient."""

from __future__ import annotations

from collections.abc import Iterator

import numpy

from backprobe.rules.alert import Alert, Seen, alert
from backprobe.rules.history import History, Matrix
from backprobe.rules.rule import RULES
from backprobe.rules.updates import GROWS, WAIT

FEW = RULES["lost_updates"].threshold


def check(history: History) -> Iterator[Alert]:
    """Needs ``"update"`` in ``what=``."""
    known = {*history.used.names}
    names = [name for name in history.updates.names if name in known]
    if not names:
        return
    updates, gradients = history.updates.part(names), history.used.part(names)
    moved, live = (one["count"] - one["zeros"] for one in (updates, gradients))
    end = WAIT
    while end <= len(history.steps):
        # Of those that change at all: of the others "unchanged" is said, and their learning rate may be 0.
        changing = (moved[:, :end] > 0).any(axis=1)
        with numpy.errstate(all="ignore"):
            share = numpy.nansum(moved[changing, :end], axis=0) / numpy.nansum(live[changing, :end], axis=0)
        if not (share < FEW).all():  # also where it is not known
            return
        if not _grows(share):
            most = int(numpy.nansum(live[changing, end - 1 : end], axis=1).argmax())
            name = [one for one, is_changing in zip(names, changing, strict=True) if is_changing][most]
            seen = [Seen(int(history.steps[end - 1]), name, float(share.max()))]
            headline = "steps change at most {number} of the numbers that have a gradient, as of '{name}'"
            remedy = "a larger learning rate; or parameters in float32: a change below the rounding of a dtype is lost"
            yield from alert("lost_updates", seen, "update.zeros", headline, remedy)
            return
        end *= 2


def _grows(share: Matrix) -> bool:
    # From a quarter of the steps to the next, as in a warm-up?
    quarter = len(share) // 4
    return bool(share[-quarter:].mean() > GROWS * share[-2 * quarter : -quarter].mean())
