"""Dead, saturated and outsized values, found from the statistics of returned values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from backprobe.rules.alert import Alert, Sighting, alert
from backprobe.rules.rule import RULES
from backprobe.rules.shares import is_shares
from backprobe.rules.window import Firsts, Mask, Matrix, RunRows, Table, Window, lasting

DEAD, FLAT, LARGE = (RULES[kind].threshold for kind in ("dead", "saturated", "large_values"))
FEWEST = 8  # returned values with fewer numbers count as neither dead nor saturated
IS_DEAD = "'{name}' is dead: a share of {number} of what it returns is 0"
OF_DEAD = "the bias before it, a lower learning rate, or leaky_relu"
OF_INPUTS = "the scale of the inputs: subtract their mean and divide by their standard deviation"
OF_OWN = (
    "smaller first values of '{}', which are as large themselves: those that its layer is initialised with by default"
)
# a problem must last for this number of steps: a factor that starts at zero, such as LoRA's second one, is trained in
# the second or third step
LASTING = 4
LOWER = 1 / 3  # a value that was not flat in the first step must have fallen below this share of its slope there
ROUNDED = 1e-6
EARLY = 2  # the number of modules whose first values may count as too large: those that run first


class Units:
    """Finds dead and saturated values among returned values that receive a gradient, or among all if gradients were not
    watched, and large values in the first step.
    """

    def __init__(self, rows: RunRows) -> None:
        self.dead, self.saturated = Firsts(), Firsts()
        self.large: list[Sighting] = []
        self.of_own = ""  # the parameter of the module that has equally large numbers, if there is one
        self.slope: Matrix | None = None  # the slope of each returned value in the first step

    def look(self, window: Window) -> None:
        values = window.values
        if not values or not len(window.steps):
            return
        if self.slope is None:
            self._begin(window, values)
        with numpy.errstate(all="ignore"):
            rows = _may_be_dead(window, values)
            if len(rows):
                table = values.some(rows)
                share = table["zeros"] / table["finite"]
                is_dead = window.wide(dead(share, table["min"], table["count"]) & _passed(window, table))
                self.dead.look(values, rows, lasting(is_dead, LASTING), share)
            rows = _may_be_saturated(window, values)
            if len(rows):
                self._saturated(window, values, rows)

    def _begin(self, window: Window, values: Table) -> None:
        # Examine facts that only the first step shows.
        with numpy.errstate(all="ignore"):
            self.slope = _slope(values)[0][:, :1]
        first = values["rms"][:EARLY, 0]
        large = [(name, float(size)) for name, size in zip(values.names, first, strict=False) if size > LARGE][:1]
        self.large = [Sighting(int(window.steps[0]), name, size) for name, size in large]
        self.of_own = _large_own(window, large[0][0]) if large else ""

    def _saturated(self, window: Window, values: Table, rows: Any) -> None:
        table = values.some(rows)
        slope, of_sigmoid = _slope(table)
        first = self.slope[rows] if self.slope is not None else slope[:, :1]
        is_lower = (first < FLAT) | ~(slope >= LOWER * first)  # a gate may be almost closed on purpose
        is_flat = (slope < FLAT) & is_lower & _passed(window, table) & (table["count"] >= FEWEST)
        # Small outputs of a sigmoid are not saturated.
        is_flat &= ~of_sigmoid | ((table["mean"] > FLAT) | (table["max"] > 1 - FLAT))
        is_flat &= ~_is_step(window, values, rows, table)
        mask = window.wide(is_flat & ~_is_returned(values, table)) & ~_is_learned(window)
        self.saturated.look(values, rows, lasting(mask, LASTING), slope)

    def alerts(self) -> Iterator[Alert]:
        yield from alert("dead", self.dead.all, "value.zeros", IS_DEAD, OF_DEAD)
        headline = "'{name}' is saturated: its mean derivative is {number} of the largest"
        remedy = "smaller weights before it, normalisation, or the scale of the inputs"
        yield from alert("saturated", self.saturated.all, "value.rms", headline, remedy)
        headline = "the first values are large: '{name}' has an rms of {number}"
        remedy = OF_OWN.format(self.of_own) if self.of_own else OF_INPUTS
        yield from alert("large_values", self.large, "value.rms", headline, remedy)


def _large_own(window: Window, name: str) -> str:
    # The parameter with large numbers in the module that returns a value; empty if there is none.
    module, table = name.partition(":")[0], window.parameters
    own = [at for at, one in enumerate(table.names) if one.rpartition(".")[0] == module] if table else []
    sizes = table.some(own)["rms"][:, 0] if own else numpy.empty(0)
    return table.names[own[int(sizes.argmax())]] if len(sizes) and sizes.max() > LARGE else ""


def dead(share: Matrix, least: Matrix, count: Matrix) -> Mask:
    """The steps in which returned values are dead, given the share of zeros, the minimum and the count."""
    found: Mask = (share >= DEAD) & (least >= 0) & (count >= FEWEST)
    return found


def _passed(window: Window, table: Table) -> Mask:
    # Do the values receive a gradient that is not zero?
    known = {name: at for at, name in enumerate(window.gradients.names)}
    if not known:
        return table.is_there
    both = [at for at, name in enumerate(table.names) if name in known]
    found = numpy.zeros((len(table.names), len(window.steps)), bool)
    found[both] = window.gradients.some([known[table.names[at]] for at in both]).column("squares") > 0
    return found


def _may_be_dead(window: Window, values: Table) -> Any:
    # The rows that may be dead, because in some new step they have enough zeros for it.
    zeros, finite = (window.new(values.column(column)) for column in ("zeros", "finite"))
    return numpy.flatnonzero(((zeros >= DEAD * finite) & (finite > 0)).any(axis=1))


def _may_be_saturated(window: Window, values: Table) -> Any:
    # The rows whose means fit a saturated activation for long enough: the mean of squares for tanh, and the mean of
    # values minus squares for a sigmoid.
    finite, total, squares = (values.column(column) for column in ("finite", "sum", "squares"))
    mask = (squares > (1 - FLAT - ROUNDED) * finite) & (squares < (1 + ROUNDED) * finite)
    less = total - squares
    mask |= (total >= 0) & (less < (FLAT / 4 + ROUNDED) * finite) & (less > -ROUNDED * finite)
    return numpy.flatnonzero(lasting(window.wide(mask), LASTING)[:, window.fresh :].any(axis=1))


def _slope(table: Table) -> tuple[Matrix, Mask]:
    # The mean derivative of a tanh or sigmoid, or NaN if the values fit neither; and whether they fit a sigmoid.
    low, high, mean, square = table["min"], table["max"], table["mean"], table["rms"] ** 2
    # Constant values are excluded, because they could come from any function.
    of_sigmoid: Mask = (low >= 0) & (high <= 1) & (high > low) & ~is_shares(table)
    # Values with zeros usually come from a ReLU. They count as those of a sigmoid only if the maximum is 1, which a
    # ReLU hardly ever has.
    of_sigmoid &= (table["zeros"] == 0) | (high > 1 - ROUNDED)
    of_tanh = (low < 0) & (low >= -1) & (high <= 1)
    slope = numpy.where(of_sigmoid, 4 * (mean - square), numpy.where(of_tanh, 1 - square, numpy.nan))
    return slope, of_sigmoid


def _is_step(window: Window, values: Table, rows: Any, table: Table) -> Mask:
    # Do the values come from a step function with a surrogate derivative, as in spiking networks? They are only 0 and
    # 1. A real sigmoid would have a derivative of exactly 0 there, but gradients do arrive at the modules before.
    known = {name: at for at, name in enumerate(window.gradients.names)}
    squares = window.gradients.column("squares")
    is_step: Mask = (table["zeros"] > 0) & (table["zeros"] + table["sum"] > (1 - ROUNDED) * table["finite"])
    for at, row in enumerate(rows):
        before = [known[name] for name in values.names[:row] if name in known]
        is_step[at] &= (squares[before] > 0).any(axis=0)
    return is_step


def _is_returned(values: Table, table: Table) -> Mask:
    # Are these values the model's return value? A confident prediction may be saturated.
    result = [at for at, name in enumerate(values.names) if name == "return" or name.startswith("return.")]
    found = numpy.zeros((len(table.names), 1), bool)
    for at in result:
        one = values.some([at])
        found = found | (
            (table.column("sum") == one.column("sum")) & (table.column("squares") == one.column("squares"))
        )
    return found


def _is_learned(window: Window) -> Mask:
    # In which steps is the loss below half of its first value? Saturation during such a fall is useful.
    if window.loss is None or not len(window.loss[1]):
        return numpy.zeros(len(window.steps), bool)
    _, steps, numbers = window.loss
    at = numpy.clip(numpy.searchsorted(steps, window.steps, side="right") - 1, 0, len(steps) - 1)
    found: Mask = (numbers[at] < numbers[0] / 2) & (numbers[0] > 0)
    return found
