"""Steps whose updates are lost to rounding: they change almost none of the numbers that have a gradient."""

from __future__ import annotations

import numpy

from backprobe.rules.alert import Sighting, alert
from backprobe.rules.rule import RULES
from backprobe.rules.updates import GROWS, WAIT
from backprobe.rules.window import Matrix, OneAlert, RunRows, Window

FEW = RULES["lost_updates"].threshold


class RoundingRule(OneAlert):
    """Finds updates that are lost to rounding. Needs ``"update"`` in ``what=``."""

    def __init__(self, rows: RunRows) -> None:
        super().__init__(rows)
        # the number of steps at which the rule judges next; None if it never does again
        self.next_end: int | None = WAIT
        self.steps: list[int] = []
        self.parts: list[tuple[Matrix, Matrix]] = []  # the counts of changed numbers, and of numbers with a gradient

    def look(self, window: Window) -> None:
        known = {*window.used.names}
        names = [name for name in window.updates.names if name in known]
        if not names or self.next_end is None or window.fresh == len(window.steps):
            return
        tables = window.updates.part(names), window.used.part(names)
        moved, live = (window.wide(one["count"] - one["zeros"])[:, window.fresh :] for one in tables)
        self.parts.append((moved, live))
        self.steps += window.steps[window.fresh :].tolist()
        while self.next_end is not None and self.next_end <= len(self.steps):
            self._judge(names, self.next_end)

    def _judge(self, names: list[str], end: int) -> None:
        moved, live = (numpy.concatenate(each, axis=1)[:, :end] for each in zip(*self.parts, strict=True))
        # Parameters that never change are left to the rule "unchanged": their learning rate may be 0.
        changing = numpy.atleast_1d((moved > 0).any(axis=1))
        with numpy.errstate(all="ignore"):
            share = numpy.nansum(moved[changing], axis=0) / numpy.nansum(live[changing], axis=0)
        self.next_end = 2 * end if (share < FEW).all() else None  # None also if the share is NaN
        if self.next_end is not None and not _grows(share):
            most = int(numpy.nansum(live[changing, end - 1 :], axis=1).argmax())
            name = [one for one, is_changing in zip(names, changing, strict=True) if is_changing][most]
            seen = [Sighting(self.steps[end - 1], name, float(share.max()))]
            headline = "steps change at most {number} of the numbers that have a gradient, as of '{name}'"
            remedy = "a larger learning rate; or parameters in float32: a change below the rounding of a dtype is lost"
            self.found, self.next_end = alert("lost_updates", seen, "update.zeros", headline, remedy), None


def _grows(share: Matrix) -> bool:
    # Does the share grow from the third quarter of the steps to the last quarter, as in a warm-up?
    quarter = len(share) // 4
    return bool(share[-quarter:].mean() > GROWS * share[-2 * quarter : -quarter].mean())
