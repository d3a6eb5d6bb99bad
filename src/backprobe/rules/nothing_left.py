"""Gradients of all parameters that are zero or were lost: multiplied by 0, cancelled, or cleared before the step."""

from __future__ import annotations

from collections.abc import Iterator

import numpy

from backprobe.rules.alert import Alert, Sighting, alert
from backprobe.rules.rule import RULES
from backprobe.rules.window import Mask, Matrix, RunRows, Window, first_of, lasting

# in steps: how long gradients must be zero or lost, and how many steps before that are compared with them
LASTING, BEFORE = 5, 20
LATE = 15  # in steps: how long gradients must be zero if the loss is 0 too, as the loss of a margin may be
# gradients count as lost only if their norm stays below this multiple of the smallest norm in the steps before
LOST = RULES["zero_gradients"].threshold
OF_LOSS = "a loss that is multiplied by 0 or does not depend on the parameters, or a mask that leaves nothing of it"
OF_STEP = "whether several losses or passes cancel, or gradients are cleared between backward() and optimizer.step()"


class NothingLeft:
    """Examines the gradients of all parameters together, step by step."""

    def __init__(self, rows: RunRows) -> None:
        self.found: dict[str, list[Alert]] = {}
        self.had_none = False  # did one of the first steps have no gradient for any parameter?

    def look(self, window: Window) -> None:
        used = window.used
        if not used or window.fresh == len(window.steps):
            return
        squares, has = used.column("squares"), window.wide((used.column("count") > 0).any(axis=0))
        norm = window.wide(numpy.sqrt(squares.sum(axis=0)))
        is_finite = window.wide(~used.is_nonfinite.any(axis=0))
        loss = window.loss_by_step
        if "zero" not in self.found:
            self._all_zero(window, has & (norm == 0) & is_finite, loss)
        if "lost" not in self.found:
            self._lost(window, numpy.where(has & is_finite, norm, numpy.nan), loss)
        if "none" not in self.found:
            self._none(window, has)

    def _all_zero(self, window: Window, is_zero: Mask, loss: Matrix) -> None:
        # A loss of zero legitimately has zero gradients, for example when a margin is reached. In this case zeros only
        # count if they appear suddenly and stay for longer.
        soon = lasting(is_zero & (loss != 0), LASTING)
        late = lasting(is_zero, LATE)
        for back in range(LATE, LATE + BEFORE):
            late[back:] &= ~is_zero[:-back]
        late[: max(BEFORE + LATE - 1 - window.first, 0)] = False
        at = first_of(window, soon | late)
        if at is not None:
            self.found["zero"] = _said(window, at, 0.0, "zero")

    def _lost(self, window: Window, norm: Matrix, loss: Matrix) -> None:
        width = BEFORE + LASTING
        if len(norm) < width:
            return
        windows = numpy.lib.stride_tricks.sliding_window_view(norm, width)
        losses = numpy.lib.stride_tricks.sliding_window_view(loss, width)
        sizes, last = abs(losses), losses[:, BEFORE:]
        with numpy.errstate(all="ignore"):
            least, most = windows[:, :BEFORE].min(axis=1), windows[:, BEFORE:].max(axis=1)
            is_there = ~(sizes[:, BEFORE:].mean(axis=1) < sizes[:, :BEFORE].mean(axis=1) / 10)
            # A cancelled loss is 0, or because of rounding has either sign. A loss at a minimum does not look like
            # this.
            is_there |= (last == 0).all(axis=1) | ((last <= 0).any(axis=1) & (losses[:, :BEFORE] > 0).all(axis=1))
            held = numpy.append(numpy.zeros(width - 1, bool), (most < LOST * least) & (most > 0) & is_there)
        at = first_of(window, held)
        if at is not None:
            ratio = float(most[at - width + 1] / least[at - width + 1])
            self.found["lost"] = _said(window, at, ratio, f"lost: at most {ratio:.1g} of what they were")

    def _none(self, window: Window, has: Mask) -> None:
        # Examines steps in which modules received gradients and parameters were measured.
        self.had_none |= not has[: max(BEFORE // 2 - window.first, 0)].all()
        if self.had_none or not window.gradients or not window.parameters:
            return
        came = [table.is_there.any(axis=0) for table in (window.parameters, window.gradients)]
        at = first_of(window, lasting(~has & came[0] & came[1], LASTING))
        if at is not None:
            first = window.used.names[0]
            headline = (
                "no parameter has a gradient as the optimizer steps, though gradients come to what modules return"
            )
            remedy = "zero_grad() between backward() and optimizer.step()"
            seen = [Sighting(int(window.steps[at]), first, 0.0)]
            self.found["none"] = alert("zero_gradients", seen, "grad.count", headline, remedy)

    def alerts(self) -> Iterator[Alert]:
        for how in ("zero", "lost", "none"):
            yield from self.found.get(how, ())


def _said(window: Window, at: int, number: float, how: str) -> list[Alert]:
    come = window.wide(window.gradients.column("squares"))[:, at] if window.gradients else numpy.zeros(0)
    others = bool((come > 0).any())
    headline = f"the gradients of all parameters are {how}" + ", though some come to what modules return" * others
    remedy = f"{OF_STEP}; or {OF_LOSS}" if others else OF_LOSS
    seen = [Sighting(int(window.steps[at]), window.used.names[0], number)]
    return alert("zero_gradients", seen, "grad.rms", headline, remedy)
