"""Parameters that are not trained: they have no gradient, a zero gradient, or were left out of the optimizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy

from backprobe.record.gaps import GapCode
from backprobe.rules.alert import Alert, Sighting, alert
from backprobe.rules.window import Firsts, Mask, RunRows, Table, Window, lasting

# a parameter without gradients is reported after SOON steps if its module surely ran, otherwise after LATE steps
SOON, LATE = 5, 20


class ParametersRule:
    """Looks for parameters that no optimizer holds, for missing gradients in the first steps in which parameters have
    numbers, and for zero gradients in all steps.
    """

    def __init__(self, rows: RunRows) -> None:
        self.left_out: list[Sighting] = []
        self.unfrozen: list[Sighting] = []
        self.frozen: set[str] | None = None
        # for each parameter by its row: the first step that has its numbers; None if no step has had them yet
        self.pending: dict[int, int | None] | None = None
        self.first_used: dict[str, int] = {}
        self.waits: dict[int, int] = {}
        self.without: dict[int, Sighting] = {}
        self.zero = Firsts()
        self.biased: set[str] = set()  # parameters whose gradient is zero while that of their module's bias is not

    def look(self, window: Window) -> None:
        if self.frozen is None and window.begins is not None:
            rows = window.part.rows
            self.frozen, names = set(rows.fact("frozen")), rows.fact("left_out")
            self.left_out = [Sighting(window.begins, name, float(len(names))) for name in names]
        if self.frozen and not self.unfrozen and len(window.steps):
            self.unfrozen = _unfrozen(window, self.frozen)
        if len(window.steps) and window.used:
            self._without_gradient(window)
            self._zero(window)

    def _without_gradient(self, window: Window) -> None:
        parameters, used = window.parameters, window.used
        if self.pending is None:
            self.pending = dict.fromkeys(range(len(parameters.names)))
        if not self.pending:
            return
        for row, at in _arrived(window, parameters):
            if self.pending.get(row, at) is None:
                self.pending[row] = at
        for row, at in _arrived(window, used):
            self.first_used.setdefault(used.names[row], at)
        if window.end < SOON:
            return
        quiet = _without_grad(window) if window.first == 0 and not self.waits else set()
        for row, first in [*self.pending.items()]:
            name = parameters.names[row]
            if row not in self.waits:
                is_soon = _has_run(window, name) or any(_holds(one, name) for one in quiet)
                self.waits[row] = SOON if is_soon else LATE
            if first is None or first + self.waits[row] > window.end:
                continue
            last = first + self.waits[row] - 1
            del self.pending[row]
            has_some = min(self.first_used.values(), default=last + 1) <= last
            if name not in (self.frozen or ()) and self.first_used.get(name, last + 1) > last and has_some:
                step = int(window.steps[last - window.first])
                self.without[row] = Sighting(step, name, float(self.waits[row]))

    def _zero(self, window: Window) -> None:
        used = window.used
        zeros, count = window.new(used.column("zeros")), window.new(used.column("count"))
        rows = numpy.flatnonzero(((zeros == count) & (count > 0)).any(axis=1))
        if not len(rows):
            return
        table = used.some(rows)
        is_zero: Mask = window.wide((table.column("zeros") == table.column("count")) & table.is_there).copy()
        is_zero &= ~_is_cancelled(used, table.names)
        is_zero &= window.wide((used.column("squares") > 0).any(axis=0))
        self.zero.look(used, rows, lasting(is_zero, SOON))
        has_some = window.wide(used.column("squares") > 0)
        biases = {module_of(name): has_some[at] for at, name in enumerate(used.names) if is_bias(name)}
        for at, name in enumerate(table.names):
            if bool((is_zero[at] & biases.get(module_of(name), False)).any()):
                self.biased.add(name)

    def alerts(self) -> Iterator[Alert]:
        headline = "no optimizer trains '{name}': {number} parameters are left out"
        remedy = (
            "give the optimizer all parameters, after the model has its last; or requires_grad_(False) if it is meant"
        )
        yield from alert("left_out", self.left_out, "param.rms", headline, remedy)
        headline = "'{name}' requires a gradient now, and no optimizer trains it: {number} parameters that were frozen"
        remedy = "optimizer.add_param_group({'params': [...]}) with them, or the optimizer made anew after them"
        yield from alert("left_out", self.unfrozen, "param.rms", headline, remedy)
        seen = [self.without[row] for row in sorted(self.without)]
        headline = "'{name}' gets no gradient: none in {number} steps"
        remedy = "bp.explain of one step: with bp.probe(model) as rec: around it, then bp.explain(rec, '{}')"
        first = min(seen, key=lambda one: one.step).name if seen else ""
        yield from alert("no_gradient", seen, "grad.count", headline, remedy.format(first))
        headline = "the gradient of '{name}' is exactly zero"
        zero = self.zero.all[::-1]
        yield from alert("zero_gradient", zero, "grad.zeros", headline, self._remedy_of_zero(zero))

    def _remedy_of_zero(self, zero: Sequence[Sighting]) -> str:
        # If the bias of a module has a gradient, one arrives at the module's output. A weight whose gradient is zero
        # then has a zero input.
        first = min(zero, key=lambda one: one.step).name if zero else ""
        if first in self.biased:
            module = module_of(first)
            return (
                f"what goes into '{module}': its bias has a gradient, so the zeros come in there, as from a dead ReLU"
            )
        return "what lies behind it in the forward: a dead ReLU, a product with zero, or a loss that does not use it"


def _arrived(window: Window, table: Table) -> Iterator[tuple[int, int]]:
    # The rows that have numbers in this window, each with the number of steps of the run before the first such step.
    is_there = window.wide(table.is_there)
    for row in numpy.flatnonzero(is_there.any(axis=1)).tolist():
        yield row, window.first + int(is_there[row].argmax())


def _has_run(window: Window, parameter: str) -> bool:
    # Does a module that holds the parameter have a value in each of the first steps? If no values were recorded,
    # gradients of modules count instead.
    values = window.values if window.values else window.gradients
    held = [at for at, name in enumerate(values.names) if _holds(name, parameter)]
    return bool(held) and bool(window.wide(values.some(held).is_there)[:, :SOON].all(axis=1).any())


def _holds(name: str, parameter: str) -> bool:
    # Does the name belong to the module that holds the parameter, or to a module around it?
    module = name.partition(":")[0]
    return bool(module) and parameter.startswith(f"{module}.")


def _without_grad(window: Window) -> set[str]:
    # The modules that ran without gradients in each of the first steps.
    early, found = set(window.steps[:SOON].tolist()), dict[str, set[int]]()
    low = window.part.low + int(window.kept[0])
    high = window.part.low + int(window.kept[SOON - 1]) + 1
    for step, name, _, _ in window.part.rows.reader.gaps([GapCode.NO_GRAD.value], low, high):
        found.setdefault(name, set()).add(step)
    return {name for name, steps in found.items() if early <= steps}


def _unfrozen(window: Window, frozen: set[str]) -> list[Sighting]:
    # The parameters that were frozen at first and require a gradient now, in SOON steps on end that have shown no
    # optimizer with them.
    at = {step: place for place, step in enumerate(window.steps.tolist())}
    masks: dict[str, Mask] = {}
    low, high = window.part.low + int(window.kept[0]), window.part.low + int(window.kept[-1]) + 1
    for step, name, _, _ in window.part.rows.reader.gaps([GapCode.NOT_OPTIMIZED.value], low, high):
        if name in frozen and step in at:
            masks.setdefault(name, numpy.zeros(len(at), bool))[at[step]] = True
    ends = {name: lasting(mask[None], SOON)[0] for name, mask in masks.items()}
    first = {name: int(window.steps[end.argmax()]) for name, end in ends.items() if end.any()}
    return [Sighting(step, name, float(len(first))) for name, step in first.items()]


def _is_cancelled(used: Table, names: Sequence[str]) -> Mask:
    # Is the parameter a bias whose weight has a gradient? A difference or a normalisation after the layer then cancels
    # the gradient of the bias.
    found = numpy.zeros((len(names), len(used.window.steps)), bool)
    biases = [at for at, name in enumerate(names) if is_bias(name)]
    weights: dict[str, list[int]] = {}
    for row, name in enumerate(used.names if biases else ()):
        if not is_bias(name):
            weights.setdefault(module_of(name), []).append(row)
    for at in biases:
        rows = weights.get(module_of(names[at]), [])
        found[at] = (used.some(rows).column("squares") > 0).any(axis=0)
    return found


def module_of(parameter: str) -> str:
    """The path of the module that has this parameter."""
    return parameter.rpartition(".")[0]


def is_bias(name: str) -> bool:
    """Does the last part of the name suggest a bias?"""
    own = name.rpartition(".")[2]
    return "bias" in own or own == "b"
