"""A softmax too many: probabilities are returned, and the loss takes them for logits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy

from backprobe.rules.alert import Alert, Seen, alert
from backprobe.rules.history import History, Mask, Table, lasting

LASTING = 5  # steps
ROUNDED = 1e-4
NEAR = 0.1  # of the loss: probabilities that know nothing give log(classes), to within so much


def is_shares(values: Table) -> Mask:
    """Where numbers may be probabilities of classes: between 0 and 1, with a sum that divides their count."""
    count, total = values["count"], values["sum"]
    with numpy.errstate(all="ignore"):
        rows = numpy.round(total)
        classes = numpy.round(count / rows)
        is_whole = (abs(total - rows) <= ROUNDED * total) & (rows * classes == count) & (classes >= 2)
    found: Mask = is_whole & (values["min"] >= 0) & (values["max"] <= 1 + ROUNDED)
    return found


def check(history: History) -> Iterator[Alert]:
    """Needs values and gradients of what the model returns, and a loss."""
    values, gradients = history.values, history.gradients
    both = set(values.names) & set(gradients.names)
    names = [name for name in values.names if name.partition(".")[0] == "return" and name in both]
    if not names or history.loss is None or len(history.steps) < LASTING:
        return
    shares, back = values.part(names), gradients.part(names)
    with numpy.errstate(all="ignore"):
        is_zero = abs(back["sum"]) <= ROUNDED * back["rms"] * back["count"]
        held = lasting(is_shares(shares) & is_zero & (back["squares"] > 0), LASTING)
        classes = numpy.round(shares["count"] / numpy.round(shares["sum"]))
    for row in numpy.flatnonzero(held.any(axis=1)):
        at = int(held[row].argmax())
        count, ones = float(classes[row, at]), float(shares["sum"][row, 0])
        first = float(history.loss[2][0])
        if min(abs(first / numpy.log(count) - 1), abs(first / ones / numpy.log(count) - 1)) < NEAR:
            seen = [Seen(int(history.steps[at]), names[row], count)]
            headline = (
                "softmax twice: '{name}' has probabilities of {number} classes, and the loss takes them for logits"
            )
            remedy = "return logits: F.cross_entropy applies log_softmax itself. Or F.nll_loss of log_softmax"
            yield from alert("softmax_twice", seen, "value.sum", headline, remedy)
            return
