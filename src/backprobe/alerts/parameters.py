"""Parameters that are not trained: without a gradient, with one of zeros, unchanged, or left out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy

from backprobe.alerts.alert import Alert, Seen, alert
from backprobe.alerts.history import History, Mask, Table, firsts, lasting
from backprobe.record.gaps import GapCode

SOON, LATE = 5, 20  # steps
CONSTANT = ("sum", "squares", "min", "max")
FAINT = 1e-3  # of the median gradient: that of a bias before a normalisation is zero but for rounding
BY_NONE = "in {} steps on end backward() brought it no gradient, and others got one; none should lack it (no threshold)"
BY_ZERO = "zero means: every number of the gradient is exactly 0, in 5 steps on end (no threshold)"
BY_SAME = (
    "unchanged means: its sum, squares, minimum and maximum are the same to the bit since the first step, though its "
    "gradient is not zero, and above 1/1000 of the median of all (no other threshold)"
)
BY_LEFT = "it requires a gradient, and no optimizer of this run has it (no threshold)"


def check(history: History) -> Iterator[Alert]:
    yield from _left_out(history)
    if not len(history.steps) or not history.used.rows:
        return
    yield from _without_gradient(history)
    yield from _zero(history)
    yield from _unchanged(history)


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
    there, has, quiet = parameters.is_there, history.used.is_there, _without_grad(history)
    seen = []
    for at, name in enumerate(parameters.names):
        wait = SOON if _has_run(history, name) or any(_holds(one, name) for one in quiet) else LATE
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
    # Did a module that has it return something in the first steps?
    values = history.values if history.values.rows else history.gradients
    held = [at for at, name in enumerate(values.names) if _holds(name, parameter)]
    return bool(held) and bool(values.is_there[held, :SOON].all(axis=1).any())


def _holds(name: str, parameter: str) -> bool:
    # Is it a name of the module that has a parameter, or of one around that?
    module = name.partition(":")[0]
    return bool(module) and parameter.startswith(f"{module}.")


def _without_grad(history: History) -> set[str]:
    # What ran without gradients in each of the first steps.
    early = set(history.steps[:SOON].tolist())
    known = [(step, name) for step, name, kind, code in history.reader.gaps() if code == GapCode.NO_GRAD.value]
    steps: dict[str, set[int]] = {}
    for step, name in known:
        steps.setdefault(name, set()).add(step)
    return {name for name, found in steps.items() if early <= found}


def _zero(history: History) -> Iterator[Alert]:
    used = history.used
    is_zero: Mask = (used["zeros"] == used["count"]) & (used["count"] > 0)
    is_zero &= ~_is_cancelled(used)
    others = (used["squares"] > 0).any(axis=0)
    seen = [
        Seen(int(history.steps[at]), used.names[row], 0.0)
        for row, at in reversed(firsts(lasting(is_zero & others, SOON)))
    ]
    headline = "the gradient of '{name}' is exactly zero"
    remedy = "what lies behind it in the forward: a dead ReLU, a product with zero, or a loss that does not use it"
    yield from alert("zero_gradient", seen, "grad.zeros", 0.0, headline, [BY_ZERO], remedy)


def _is_cancelled(used: Table) -> Mask:
    # Is it a bias whose weight has a gradient? One that a difference or a normalisation takes away again has none.
    known, has = {name: at for at, name in enumerate(used.names)}, used["squares"] > 0
    found = numpy.zeros(has.shape, bool)
    for at, name in enumerate(used.names):
        module, _, own = name.rpartition(".")
        weight = ".".join(filter(None, (module, own.replace("bias", "weight"))))
        if "bias" in own and weight in known:
            found[at] = has[known[weight]]
    return found


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
