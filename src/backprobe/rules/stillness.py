"""Parameters that stay the same to the bit though they have gradients, and optimizers that do not step."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy

from backprobe.record.gaps import GapCode
from backprobe.rules.alert import Alert, Seen, alert
from backprobe.rules.history import History, Mask, firsts

SOON, LATE, MANY = 5, 20, 10  # steps on end: from the first on; of some, and of all later on
LONGER = 4  # times as many as ever before
CONSTANT = ("sum", "squares", "min", "max")
FAINT = 1e-3  # of the median gradient: that of a bias before a normalisation is zero but for rounding


def check(history: History) -> Iterator[Alert]:
    yield from _open(history)
    if len(history.steps) > SOON:
        yield from _not_stepped(history)
        yield from _unchanged(history)


def _open(history: History) -> Iterator[Alert]:
    for step, backwards in history.open_steps:
        headline = "no optimizer steps any more" if step else "no optimizer steps"
        said = f"{headline}: in its place {{number}} passes of backward() ran, and the step was open to the end"
        remedy = "optimizer.step() of each optimizer, and the condition under which it is called"
        seen = [Seen(step, "", float(backwards))]
        yield from alert("no_step", seen, "backwards", said, remedy)


def _unchanged(history: History) -> Iterator[Alert]:
    parameters, used = history.parameters, history.used
    both = [name for name in parameters.names if name in set(used.names)]
    if not both:
        return
    here, gradients = parameters.part(both), used.part(both)
    same = numpy.ones((len(both), len(history.steps)), bool)
    same[:, 0] = False
    for column in CONSTANT:
        numbers = here[column]
        same[:, 1:] &= numbers[:, 1:] == numbers[:, :-1]
    with numpy.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a step in which no parameter has a gradient
        is_felt = gradients["rms"] > FAINT * numpy.nanmedian(used["rms"], axis=0)
    is_first = numpy.logical_and.accumulate(same | (numpy.arange(same.shape[1]) == 0), axis=1)
    felt = numpy.where(is_first, is_felt.cumsum(axis=1), 0) > SOON
    length = _lengths(same & is_felt)
    later = length >= numpy.maximum(LATE, LONGER * _before(length))
    is_all = (same & is_felt).sum(axis=0) >= numpy.maximum(is_felt.sum(axis=0), 1)
    together = _lengths(is_all[None])
    of_all = (together >= numpy.maximum(MANY, LONGER * _before(together))) & (length >= MANY)
    found = firsts(felt | later | of_all)
    seen = [Seen(int(history.steps[at]), both[row], 0.0) for row, at in found]
    headline = "'{name}' does not change, though it has a gradient"
    if seen and len(seen) == len(both) and len({one.step for one in seen}) == 1:
        headline = "no parameter changes, though they have gradients: neither '{name}' nor another"
    remedy = "whether optimizer.step() is called; the learning rate; or a dtype in which updates are lost to rounding"
    yield from alert("unchanged", seen, "param.rms", headline, remedy)


def _not_stepped(history: History) -> Iterator[Alert]:
    parameters = history.parameters
    there = parameters.is_there if parameters.rows else numpy.zeros((0, len(history.steps)), bool)
    lacking = {name: ~there[at] & there[at].any() for at, name in enumerate(parameters.names)}
    for name, steps in history.gaps(GapCode.NOT_STEPPED).items():
        lacking.setdefault(name, numpy.isin(history.steps, list(steps)))
    lacking = {name: one for name, one in lacking.items() if one.any()}
    if not lacking:
        return
    names, length = list(lacking), _lengths(numpy.array([*lacking.values()]))
    held = length >= numpy.maximum(LATE, LONGER * _before(length))
    seen = [Seen(int(history.steps[at]), names[row], float(length[row, at])) for row, at in firsts(held)]
    headline = "the optimizer of '{name}' does not step: it has not in {number} steps on end"
    remedy = "optimizer.step() of that optimizer, in each step"
    yield from alert("no_step", seen, "param.count", headline, remedy)


def _lengths(mask: Mask) -> numpy.ndarray:
    """For how many steps a condition has held on end.

    >>> _lengths(numpy.array([[True, True, False, True]])).tolist()
    [[1, 2, 0, 1]]
    """
    at = numpy.arange(1, mask.shape[1] + 1)
    return numpy.where(mask, at - numpy.maximum.accumulate(numpy.where(mask, 0, at), axis=1), 0)


def _before(length: numpy.ndarray) -> numpy.ndarray:
    """The longest stretch that had ended before the one that a step is in.

    >>> _before(numpy.array([[1, 2, 0, 1, 2, 3, 0]])).tolist()
    [[0, 0, 2, 2, 2, 2, 3]]
    """
    ended = numpy.zeros_like(length)
    ended[:, 1:] = numpy.where(length[:, 1:] == 0, length[:, :-1], 0)
    return numpy.maximum.accumulate(ended, axis=1)
