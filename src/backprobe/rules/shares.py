"""One softmax too many: the model returns probabilities, and the loss treats them as logits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy

from backprobe.rules.alert import Alert, Sighting, alert
from backprobe.rules.window import Mask, RunRows, Table, Window, first_of, lasting

LASTING = 5  # returned values must look like probabilities in this number of successive steps
ROUNDED = 1e-4
NEAR = 0.1  # relative to the loss: uninformed probabilities give log(classes), within this tolerance


def is_shares(values: Table) -> Mask:
    """The steps in which numbers may be probabilities of classes: all lie between 0 and 1, and their count is a
    multiple of their sum.
    """
    count, total = values["count"], values["sum"]
    with numpy.errstate(all="ignore"):
        rows = numpy.round(total)
        classes = numpy.round(count / rows)
        is_whole = (abs(total - rows) <= ROUNDED * total) & (rows * classes == count) & (classes >= 2)
    found: Mask = is_whole & (values["min"] >= 0) & (values["max"] <= 1 + ROUNDED)
    return found


class Shares:
    """Needs values and gradients of the model's return value, and a loss."""

    def __init__(self, rows: RunRows) -> None:
        self.held: dict[
            int, tuple[Sighting, float]
        ] = {}  # by row: the sighting, and the number of samples in the first step
        self.ones: dict[str, float] = {}
        self.first: float | None = None  # the first loss

    def look(self, window: Window) -> None:
        values, gradients = window.values, window.gradients
        both = set(values.names) & set(gradients.names)
        names = [name for name in values.names if name.partition(".")[0] == "return" and name in both]
        if self.first is None and window.loss is not None and len(window.loss[2]):
            self.first = float(window.loss[2][0])
        if not names or not len(window.steps):
            return
        shares, back = values.part(names), gradients.part(names)
        total, count = (window.wide(shares[column]) for column in ("sum", "count"))
        if not self.ones:
            self.ones = dict(zip(names, total[:, 0].tolist(), strict=True))
        with numpy.errstate(all="ignore"):
            is_zero = abs(back["sum"]) <= ROUNDED * back["rms"] * back["count"]
            held = lasting(window.wide(is_shares(shares) & is_zero & (back["squares"] > 0)), LASTING)
        for row in range(len(names)):
            at = first_of(window, held[row])
            if at is not None and row not in self.held:
                classes = float(numpy.round(count[row, at] / numpy.round(total[row, at])))
                self.held[row] = Sighting(int(window.steps[at]), names[row], classes), self.ones[names[row]]

    def alerts(self) -> Iterator[Alert]:
        for row in sorted(self.held):
            seen, ones = self.held[row]
            if self.first is not None and _is_near(self.first, seen.number, ones):
                headline = (
                    "softmax twice: '{name}' has probabilities of {number} classes, and the loss takes them for logits"
                )
                remedy = "return logits: F.cross_entropy applies log_softmax itself. Or F.nll_loss of log_softmax"
                yield from alert("softmax_twice", [seen], "value.sum", headline, remedy)
                return


def _is_near(first: float, classes: float, ones: float) -> bool:
    # Does the first loss, or its mean over samples, equal the loss of uninformed probabilities?
    known = numpy.log(classes)
    return bool(min(abs(first / known - 1), abs(first / ones / known - 1)) < NEAR)
