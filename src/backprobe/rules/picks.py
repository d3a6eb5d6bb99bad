"""Scores that are taken for log-probabilities: the loss is minus what it picks of them, one of each row."""

from __future__ import annotations

from collections.abc import Iterator

import numpy

from backprobe.rules.alert import Alert, Seen, alert
from backprobe.rules.history import History, Mask, Table, lasting
from backprobe.rules.rule import RULES

LASTING = 5  # steps
ROUNDED = 1e-4
ABOVE = RULES["not_log_probabilities"].threshold  # that a log-probability is by rounding in 16 bits


def is_of_picks(gradients: Table) -> Mask:
    """Where a gradient is that of minus the mean of one number of each row: these have minus 1/rows, the others 0."""
    count, total, least = gradients["count"], gradients["sum"], gradients["min"]
    picked = count - gradients["zeros"]
    with numpy.errstate(all="ignore"):
        is_alike = abs(gradients["squares"] * picked - total**2) <= ROUNDED * total**2
        is_one_of_each = (picked > 0) & (count >= 2 * picked) & (numpy.round(count / picked) * picked == count)
        found: Mask = is_one_of_each & is_alike & (least < 0) & (abs(total + 1) <= ROUNDED)
    return found


def check(history: History) -> Iterator[Alert]:
    """Needs values and gradients of what the model returns, its parameters, which change, and a loss.

    That is negative: so it is neither a margin that is kept nor one minus a probability, whose gradients are alike.
    """
    values, gradients, parameters = history.values, history.gradients, history.parameters
    both = set(values.names) & set(gradients.names)
    names = [name for name in values.names if name.partition(".")[0] == "return" and name in both]
    if not names or not parameters.rows or history.loss is None or len(history.steps) < LASTING:
        return
    scores, back = values.part(names), gradients.part(names)
    moves = numpy.zeros(len(history.steps), bool)
    with numpy.errstate(all="ignore"):
        moves[1:] = (numpy.diff(parameters["squares"], axis=1) != 0).any(axis=0)
        held = lasting(is_of_picks(back) & (scores["max"] > ABOVE) & _is_negative(history), LASTING) & moves
    for row in numpy.flatnonzero(held.any(axis=1)):
        at = int(held[row].argmax())
        seen = [Seen(int(history.steps[at]), names[row], float(scores["max"][row, at]))]
        headline = (
            "the loss is minus the mean of one number in each row of '{name}', as of log-probabilities, but they are "
            "up to {number}: log-probabilities are never above 0"
        )
        remedy = "log_softmax of it first, or a cross entropy, which applies that itself"
        yield from alert("not_log_probabilities", seen, "value.max", headline, remedy)
        return


def _is_negative(history: History) -> Mask:
    # The steps of which it is known that the loss is below 0.
    assert history.loss is not None
    _, steps, numbers = history.loss
    found: Mask = numpy.isin(history.steps, steps[numbers < 0])
    return found
