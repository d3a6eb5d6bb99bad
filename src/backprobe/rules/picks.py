"""Scores that are used as log-probabilities without a log_softmax: the loss is minus the mean of one score
from each row.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy

from backprobe.rules.alert import Sighting, alert
from backprobe.rules.rule import RULES
from backprobe.rules.window import Mask, OneAlert, Table, Window, first_of, lasting

HEADLINE = (
    "the loss is minus the mean of one number in each row of '{name}', as of log-probabilities, but they are "
    "up to {number}: log-probabilities are never above 0"
)
REMEDY = "log_softmax of it first, or a cross entropy, which applies that itself"
LASTING = 5  # the gradient must fit a loss that picks one score per row, in this number of successive steps
ROUNDED = 1e-4
# Through rounding in 16 bits, a log-probability may exceed 0 by this much.
ABOVE = RULES["not_log_probabilities"].threshold


def is_of_picks(gradients: Table) -> Mask:
    """The steps in which a gradient fits a loss that is minus the mean of one number per row: -1/rows at these, 0
    elsewhere.
    """
    count, total, least = gradients["count"], gradients["sum"], gradients["min"]
    picked = count - gradients["zeros"]
    with numpy.errstate(all="ignore"):
        is_alike = abs(gradients["squares"] * picked - total**2) <= ROUNDED * total**2
        is_one_of_each = (picked > 0) & (count >= 2 * picked) & (numpy.round(count / picked) * picked == count)
        found: Mask = is_one_of_each & is_alike & (least < 0) & (abs(total + 1) <= ROUNDED)
    return found


class PicksRule(OneAlert):
    """Needs a value and its gradient, of the model's return value unless that is the loss; parameters that change; and
    a negative loss.
    """

    def look(self, window: Window) -> None:
        values, gradients, parameters = window.values, window.gradients, window.parameters
        both = set(values.names) & set(gradients.names)
        names = _names(values, both)
        is_new = window.fresh < len(window.steps)
        if self.found or not names or not is_new or not parameters or window.loss is None:
            return
        scores, back = values.part(names), gradients.part(names)
        moves = numpy.zeros(len(window.steps), bool)
        with numpy.errstate(all="ignore"):
            held = lasting(window.wide(is_of_picks(back) & (scores["max"] > ABOVE)) & _is_negative(window), LASTING)
            if held.any():
                moves[1:] = (numpy.diff(window.wide(parameters["squares"]), axis=1) != 0).any(axis=0)
        for row, name in enumerate(names):
            at = first_of(window, held[row] & moves)
            if at is not None and not self.found:
                seen = [Sighting(int(window.steps[at]), name, float(window.wide(scores["max"])[row, at]))]
                self.found = alert("not_log_probabilities", seen, "value.max", HEADLINE, REMEDY)


def _names(values: Table, known: Collection[str]) -> Sequence[str]:
    # Return the names of the values from which the loss may pick scores: the model's return values, or all values if
    # the model returns only its loss.
    returned = [name for name in values.names if name.partition(".")[0] == "return"]
    is_loss = bool(returned) and not numpy.any(values.part(returned)["count"] > 1)
    return [name for name in (values.names if is_loss else returned) if name in known]


def _is_negative(window: Window) -> Mask:
    # The steps in which the loss is known to be below 0.
    assert window.loss is not None
    _, steps, numbers = window.loss
    found: Mask = numpy.isin(window.steps, steps[numbers < 0])
    return found
