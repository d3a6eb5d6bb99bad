"""Parameters that are not trained: without a gradient, with one of zeros, unchanged, left out, or never cleared."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy

from backprobe.alerts.alert import Alert, Seen, alert
from backprobe.alerts.history import History, Mask, firsts, lasting

SOON, LATE = 5, 20  # steps
CONSTANT = ("sum", "squares", "min", "max")
CLOSE, NOISE = 1e-3, 1e-5  # of the largest of the sums; of a sum of as many numbers that do not cancel
FAINT = 1e-3  # of the median gradient: that of a bias before a normalisation is zero but for rounding
LASTING = 3
BY_NONE = "in {} steps on end backward() brought it no gradient, and others got one; none should lack it (no threshold)"
BY_ZERO = "zero means: every number of the gradient is exactly 0, in 5 steps on end (no threshold)"
BY_SAME = (
    "unchanged means: its sum, squares, minimum and maximum are the same to the bit since the first step, though its "
    "gradient is not zero, and above 1/1000 of the median of all (no other threshold)"
)
BY_LEFT = "it requires a gradient, and no optimizer of this run has it (no threshold)"
BY_SUMS = (
    "the sum of a bias' gradient is that of the gradient of what its module returned; here it is that plus the sum of "
    "the step before, in 3 steps on end, for most modules (to 1/1000)"
)


def check(history: History) -> Iterator[Alert]:
    yield from _left_out(history)
    if not len(history.steps) or not history.used.rows:
        return
    yield from _without_gradient(history)
    yield from _zero(history)
    yield from _unchanged(history)
    yield from _accumulated(history)


def _left_out(history: History) -> Iterator[Alert]:
    names = history.fact("left_out")
    steps = history.all_steps
    seen = [Seen(int(steps[0]), name, float(len(names))) for name in names] if len(steps) else []
    headline = "no optimizer trains '{name}': {number} parameters are left out"
    remedy = "give the optimizer all parameters, after the model has its last; or requires_grad_(False) if it is meant"
    yield from alert("left_out", seen, "param.rms", 0.0, headline, [BY_LEFT], remedy)


def _without_gradient(history: History) -> Iterator[Alert]:
    parameters, frozen = history.parameters, set(history.fact("frozen"))
    known = {name: at for at, name in enumerate(history.used.names)}
    there, has = parameters.is_there, history.used.is_there
    seen = []
    for at, name in enumerate(parameters.names):
        wait = SOON if _has_run(history, name) else LATE
        last = int(there[at].argmax()) + wait - 1
        is_known = name in known and has[known[name], : last + 1].any()
        if name not in frozen and not is_known and last < len(history.steps) and has[:, : last + 1].any():
            seen.append(Seen(int(history.steps[last]), name, float(wait)))
    headline = "'{name}' gets no gradient: none in {number} steps"
    remedy = "bp.explain of one step: with bp.probe(model) as rec: around it, then bp.explain(rec, '{}')"
    first = min(seen, key=lambda one: one.step).name if seen else ""
    fact = BY_NONE.format(SOON if seen and seen[0].number == SOON else LATE)
    yield from alert("no_gradient", seen, "grad.count", 0.0, headline, [fact], remedy.format(first))


def _has_run(history: History, parameter: str) -> bool:
    """Did a module that has it return something in the first steps?"""
    values = history.values if history.values.rows else history.gradients
    path = parameter.split(".")[:-1]
    around = {".".join(path[:end]) for end in range(1, len(path) + 1)}
    held = [at for at, name in enumerate(values.names) if name.partition(":")[0] in around]
    return bool(held) and bool(values.is_there[held, :SOON].all(axis=1).any())


def _zero(history: History) -> Iterator[Alert]:
    used = history.used
    is_zero: Mask = (used["zeros"] == used["count"]) & (used["count"] > 0)
    others = (used["squares"] > 0).any(axis=0)
    seen = [
        Seen(int(history.steps[at]), used.names[row], 0.0)
        for row, at in reversed(firsts(lasting(is_zero & others, SOON)))
    ]
    headline = "the gradient of '{name}' is exactly zero"
    remedy = "what lies behind it in the forward: a dead ReLU, a product with zero, or a loss that does not use it"
    yield from alert("zero_gradient", seen, "grad.zeros", 0.0, headline, [BY_ZERO], remedy)


def _unchanged(history: History) -> Iterator[Alert]:
    parameters, used = history.parameters, history.used
    both = [name for name in parameters.names if name in set(used.names)]
    if not both or len(history.steps) < SOON + 1:
        return
    here, gradients = parameters.part(both), used.part(both)
    same = numpy.ones((len(both), len(history.steps)), bool)
    for column in CONSTANT:
        numbers = here[column]
        same &= numbers == numbers[:, :1]
    constant = numpy.logical_and.accumulate(same, axis=1)
    with numpy.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a step in which no parameter has a gradient
        is_felt = gradients["rms"] > FAINT * numpy.nanmedian(used["rms"], axis=0)
    moved = is_felt.cumsum(axis=1)
    held = constant & (moved > SOON)
    seen = [Seen(int(history.steps[at]), both[row], 0.0) for row, at in firsts(held)]
    headline = "'{name}' does not change, though it has a gradient"
    remedy = "the learning rate of its group, or a dtype in which the updates are lost to rounding"
    yield from alert("unchanged", seen, "param.rms", 0.0, headline, [BY_SAME], remedy)


def _accumulated(history: History) -> Iterator[Alert]:
    """Is the gradient of the step before still in ``.grad``?"""
    modules = {name: at for at, name in enumerate(history.gradients.names)}
    biases = [name for name in history.used.names if name.endswith(".bias") and name[: -len(".bias")] in modules]
    if not biases or len(history.steps) < LASTING + 1:
        return
    own = history.used.part(biases)["sum"]
    places = [modules[name[: -len(".bias")]] for name in biases]
    came, size = (history.gradients[column][places] for column in ("sum", "rms"))
    noise = NOISE * size[:, 1:] * history.gradients["count"][places][:, 1:]
    before, now, new = own[:, :-1], own[:, 1:], came[:, 1:]
    close = noise + CLOSE * numpy.maximum(numpy.maximum(abs(before), abs(now)), abs(new))
    with numpy.errstate(all="ignore"):
        is_known = (abs(before) > 10 * close) & (numpy.diff(history.steps) == 1)
        is_sum = is_known & (abs(now - before - new) <= close) & (abs(now - new) > close)
    votes, known = is_sum.sum(axis=0), is_known.sum(axis=0)
    held = lasting(((votes > known / 2) & (known > 0))[None], LASTING)[0]
    if held.any():
        at = int(held.argmax())
        row = int(is_sum[:, at].argmax())
        seen = [Seen(int(history.steps[at + 1]), biases[row], float(now[row, at] / new[row, at]))]
        headline = "gradients add up from step to step: the sum at '{name}' is {number} times that of this step"
        remedy = "optimizer.zero_grad() before each backward()"
        yield from alert("accumulated", seen, "grad.sum", 1.0, headline, [BY_SUMS], remedy)
