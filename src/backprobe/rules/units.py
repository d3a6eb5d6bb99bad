"""Dead, saturated and outsized values: what modules return, by their statistics."""

from __future__ import annotations

from collections.abc import Iterator

import numpy

from backprobe.rules.alert import Alert, Seen, alert
from backprobe.rules.history import History, Mask, Matrix, Table, firsts, lasting
from backprobe.rules.rule import RULES
from backprobe.rules.shares import is_shares

DEAD, FLAT, LARGE = (RULES[kind].threshold for kind in ("dead", "saturated", "large_values"))
FEWEST = 8  # numbers
IS_DEAD = "'{name}' is dead: a share of {number} of what it returns is 0"
OF_DEAD = "the bias before it, a lower learning rate, or leaky_relu"
LASTING = 4  # steps: what begins at zero, as LoRA's second factor, is trained in the second or third
LOWER = 1 / 3  # of what it was in the first step
ROUNDED = 1e-6
EARLY = 2  # modules that run first


def check(history: History) -> Iterator[Alert]:
    values = history.values
    if not values.rows or not len(history.steps):
        return
    passed = _passed(history, values)
    yield from _dead(history, values, passed)
    yield from _saturated(history, values, passed)
    yield from _large(history, values)


def _passed(history: History, values: Table) -> Mask:
    # Does a gradient that is not zero come to it? Always, where gradients were not watched.
    known = {name: at for at, name in enumerate(history.gradients.names)}
    if not known:
        return values.is_there
    rms = history.gradients["rms"]
    nothing = numpy.zeros(len(history.steps))
    return numpy.array([rms[known[name]] if name in known else nothing for name in values.names]) > 0


def _seen(history: History, table: Table, mask: Mask, numbers: Matrix, count: int) -> list[Seen]:
    return [
        Seen(int(history.steps[at]), table.names[row], float(numbers[row, at]))
        for row, at in firsts(lasting(mask, count))
    ]


def dead(share: Matrix, least: Matrix, count: Matrix) -> Mask:
    """Where what is returned is dead: by the share of numbers that are 0, the least of them, and how many there are."""
    found: Mask = (share >= DEAD) & (least >= 0) & (count >= FEWEST)
    return found


def _dead(history: History, values: Table, passed: Mask) -> Iterator[Alert]:
    with numpy.errstate(all="ignore"):
        share = values["zeros"] / values["finite"]
        is_dead = dead(share, values["min"], values["count"]) & passed
    seen = _seen(history, values, is_dead, share, LASTING)
    yield from alert("dead", seen, "value.zeros", IS_DEAD, OF_DEAD)


def _saturated(history: History, values: Table, passed: Mask) -> Iterator[Alert]:
    low, high, mean, square = values["min"], values["max"], values["mean"], values["rms"] ** 2
    of_sigmoid = (low >= 0) & (high <= 1) & (high > 0) & ~is_shares(values)
    of_sigmoid &= (values["zeros"] == 0) | (high > 1 - ROUNDED)  # a ReLU has zeros, and hardly ever exactly 1 beside
    of_tanh = (low < 0) & (low >= -1) & (high <= 1)
    with numpy.errstate(all="ignore"):
        slope = numpy.where(of_sigmoid, 4 * (mean - square), numpy.where(of_tanh, 1 - square, numpy.nan))
        is_lower = (slope[:, :1] < FLAT) | ~(slope >= LOWER * slope[:, :1])  # a gate may be meant to be nearly open
        is_flat = (slope < FLAT) & is_lower & passed & (values["count"] >= FEWEST)
        is_flat &= ~of_sigmoid | ((mean > FLAT) | (high > 1 - FLAT))  # small numbers are on no end of it
    is_flat &= ~_is_returned(values)[:, None] & ~_is_learned(history)
    seen = _seen(history, values, is_flat, slope, LASTING)
    headline = "'{name}' is saturated: its mean derivative is {number} of the largest"
    remedy = "smaller weights before it, normalisation, or the scale of the inputs"
    yield from alert("saturated", seen, "value.rms", headline, remedy)


def _is_returned(values: Table) -> Mask:
    # Is it what the model returns? A prediction that is sure of itself is right to be.
    result = [at for at, name in enumerate(values.names) if name == "return" or name.startswith("return.")]
    columns = [numpy.nan_to_num(values[column]) for column in ("sum", "squares")]
    same = [[(of == of[one]).all(axis=1) for of in columns] for one in result]
    shape = len(result), len(columns), len(values.names)
    return numpy.asarray(numpy.array(same, bool).reshape(shape).all(axis=1).any(axis=0))


def _is_learned(history: History) -> Mask:
    # In which steps has the loss fallen below half of the first? What saturates on the way is of use.
    if history.loss is None:
        return numpy.zeros(len(history.steps), bool)
    _, steps, numbers = history.loss
    at = numpy.clip(numpy.searchsorted(steps, history.steps, side="right") - 1, 0, max(len(steps) - 1, 0))
    if not len(numbers):
        return numpy.zeros(len(history.steps), bool)
    found: Mask = (numbers[at] < numbers[0] / 2) & (numbers[0] > 0)
    return found


def _large(history: History, values: Table) -> Iterator[Alert]:
    first = values["rms"][:EARLY, 0]
    seen = [
        Seen(int(history.steps[0]), name, float(size))
        for name, size in zip(values.names, first, strict=False)
        if size > LARGE
    ][:1]
    headline = "the first values are large: '{name}' has an rms of {number}"
    remedy = "the scale of the inputs: subtract their mean and divide by their standard deviation"
    yield from alert("large_values", seen, "value.rms", headline, remedy)
