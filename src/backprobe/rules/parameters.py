"""Parameters that are not trained: without a gradient, with one of zeros, or left out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy

from backprobe.record.gaps import GapCode
from backprobe.rules.alert import Alert, Seen, alert
from backprobe.rules.history import History, Mask, Table, firsts, lasting

SOON, LATE = 5, 20  # steps


def check(history: History) -> Iterator[Alert]:
    yield from _left_out(history)
    if not len(history.steps) or not history.used.rows:
        return
    yield from _without_gradient(history)
    yield from _zero(history)


def _left_out(history: History) -> Iterator[Alert]:
    names = history.fact("left_out")
    steps = history.all_steps
    seen = [Seen(int(steps[0]), name, float(len(names))) for name in names] if len(steps) else []
    headline = "no optimizer trains '{name}': {number} parameters are left out"
    remedy = "give the optimizer all parameters, after the model has its last; or requires_grad_(False) if it is meant"
    yield from alert("left_out", seen, "param.rms", headline, remedy)


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
    yield from alert("no_gradient", seen, "grad.count", headline, remedy.format(first))


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
    early, steps = set(history.steps[:SOON].tolist()), history.gaps(GapCode.NO_GRAD)
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
    yield from alert("zero_gradient", seen, "grad.zeros", headline, remedy)


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
