"""Vanishing and exploding gradients: how the size of gradients changes from layer to layer.

Layers are the outputs of modules, of one shape, whose names differ in one number alone: ``h.0``, ``h.1``; or the
bindings of one line of a loop, ``u#0``, ``u#1``; each must be computed from the one before. Or they are the steps of a
loop that is one operation, such as ``scan``. Ratios do not depend on the scale of the loss; thresholds on
magnitudes are used only where that is known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy

from backprobe.findings.phrasing import quoted
from backprobe.findings.report import Finding
from backprobe.health.record_arrays import MOST, NUMBER, RETURNED, RecordArrays, rms
from backprobe.record.graph import Graph
from backprobe.record.names import split

FEWEST = 4  # layers
RATIO = math.sqrt(10)  # of rms: a variance ratio of 10
SMALL, LARGE, HUGE = 1e-7, 1e4, 1e8
BY_RATIO = "compared with neighbours: the variance changes more than 10-fold from layer to layer, in most of them"
BY_SMALL = "vanishing means: mean |gradient| < 1e-7 (SageMaker Debugger), and falling from the output to the input"
BY_LARGE = "exploding means: rms > 1e4 (TorchLens)"
BY_HUGE = "exploding means: rms > 1e8, where a step against it is lost in float32, or loses what was there"
NOT_LARGE = (
    "only the ratio is large: the gradient is below 1 everywhere, as with a loss at each depth whose weight shrinks"
)
VANISHING = "normalisation, residual connections, or an initialisation that preserves the variance"
EXPLODING = "gradient clipping by norm, a smaller initialisation, or a lower learning rate"


def check(arrays: RecordArrays) -> Iterator[Finding]:
    """Check each series of layers, and the values by themselves."""
    said: list[tuple[str, list[Layer]]] = []
    for layers in sorted((*_series(arrays), *_loops(arrays)), key=len, reverse=True):
        finding = _along(arrays, layers)
        if finding is not None and not any(_is_part(arrays, layers, of) for kind, of in said if kind == finding.kind):
            said.append((finding.kind, layers))
            yield finding
    if arrays.scale:
        yield from _large(arrays, abs(arrays.scale))


@dataclass(frozen=True)
class Layer:
    """One layer of a series: what it is called, and its gradient."""

    at: int
    name: str
    gradient: Any


def _is_part(arrays: RecordArrays, layers: Sequence[Layer], of: Sequence[Layer]) -> bool:
    # Do these layers lie among others, such as the activations among the layers that they follow?
    (first, last), (begin, end) = [(one[0].at, one[-1].at) for one in (layers, of)]
    shared = min(last, end) - max(first, begin)
    return 2 * shared > last - first and _is_on(arrays.graph, begin, last) and _is_on(arrays.graph, first, end)


def _is_on(graph: Graph, start: int, end: int) -> bool:
    return start == end or _leads(graph, start, end)


def _large(arrays: RecordArrays, scale: float) -> Iterator[Finding]:
    # The parameters and other leaves whose gradients are large by themselves, in one finding; else other values.
    leaves, others = dict[str, float](), dict[str, float]()
    for at, (entry, grad) in enumerate(zip(arrays.entries, arrays.grads, strict=True)):
        size = 0.0 if grad is None else rms(grad) / scale
        if (at in arrays.graph.parameters or entry.is_leaf) and size > LARGE:
            leaves[entry.name] = size
        elif size > HUGE:
            others[entry.name] = size
    found, means = (leaves, BY_LARGE) if leaves else (others, BY_HUGE)
    if found:
        worst = max(found, key=found.__getitem__)
        headline = f"the gradients of {quoted(list(found), MOST)} explode: rms {found[worst]:.3g} at {worst!r}"
        source = arrays.entries[arrays.graph.positions[worst]].source if found is others else None
        yield Finding("exploding", worst, headline, source, (means,), (), EXPLODING)


def _series(arrays: RecordArrays) -> list[list[Layer]]:
    # The values of one shape whose names differ in one number, each computed from the one before; no parameters.
    found: dict[tuple[str, object], dict[int, int]] = {}
    for full, at in arrays.record.names.items():
        if split(full)[1] is None or arrays.grads[at] is None or arrays.begins(at):
            continue
        entry = arrays.entries[at]
        for number in NUMBER.finditer(full):
            is_count = full[: number.start()].endswith("#")
            if not is_count and not RETURNED.search(full):
                continue
            alike = entry.shape, is_count and (None if entry.source is None else entry.source.line)
            key = f"{full[: number.start()]}*{full[number.end() :]}"
            found.setdefault((key, alike), {})[int(number[0])] = at
    series = list[list[int]]()
    for one in found.values():
        ordered = list(dict.fromkeys(one[number] for number in sorted(one)))
        chains = _chains(arrays, ordered) if len(ordered) >= FEWEST and ordered == sorted(ordered) else []
        series += [chain for chain in chains if len(chain) >= FEWEST and chain not in series]
    return [[Layer(at, arrays.entries[at].name, arrays.grads[at]) for at in chain] for chain in series]


def _chains(arrays: RecordArrays, ordered: Sequence[int]) -> list[list[int]]:
    # These values in parts, in each of which every one is computed from the one before it.
    #
    # Samples that a loop takes one after the other, and experts side by side, have such names and are not a depth.
    chains = [[ordered[0]]]
    for before, at in pairwise(ordered):
        if _leads(arrays.graph, before, at):
            chains[-1].append(at)
        else:
            chains.append([at])
    return chains


def _leads(graph: Graph, start: int, end: int) -> bool:
    # Is one value computed from another, along edges?
    seen, pending = {end}, [end]
    while pending:
        for at in graph.inputs[pending.pop()]:
            if at == start:
                return True
            if at not in seen and at > start:
                seen.add(at)
                pending.append(at)
    return False


def _loops(arrays: RecordArrays) -> Iterator[list[Layer]]:
    # The steps of loops that the framework runs as one operation: what one step leaves is what the next one gets.
    stacked: dict[object, list[int]] = {}
    for at, entry in enumerate(arrays.entries):
        value = arrays.values[at]
        if len(entry.axes) == 1 and arrays.grads[at] is not None and value is not None:
            scope = split(arrays.graph.full_names[at])[0]
            stacked.setdefault((scope, entry.axes, value.shape), []).append(at)
    for alike in stacked.values():
        for at in alike:
            if any(_is_carried(arrays.values[at], arrays.values[other]) for other in alike if other != at):
                name = arrays.entries[at].name
                gradients = enumerate(arrays.grads[at])
                yield [Layer(at, f"{name} in step {step}", gradient) for step, gradient in gradients]


def _is_carried(left: Any, given: Any) -> bool:
    # Is what each step is given what the step before it has left?
    return len(left) > 1 and bool(left[:-1].any()) and numpy.array_equal(left[:-1], given[1:])


def _along(arrays: RecordArrays, series: Sequence[Layer]) -> Finding | None:
    # How the gradient changes from the last layer of a series to its first.
    known = [(layer, size) for layer in series if (size := rms(layer.gradient))]  # zeros.py reports those that are 0
    if len(known) < FEWEST:
        return None
    layers, sizes = [layer for layer, _ in known], [size for _, size in known]
    change = _change(layers[0].gradient, layers[-1].gradient, sizes, abs(arrays.scale or 0.0))
    if change is None:
        return None
    kind, facts = change
    first, last = layers[0], layers[-1]
    size_of_ends = f"rms of the gradient: {sizes[0]:.3g} at {first.name!r}, {sizes[-1]:.3g} at {last.name!r}"
    verb = "vanishes" if kind == "vanishing" else "explodes"
    what = "layers" if first.at != last.at else "steps"
    headline = f"the gradient {verb} over {len(layers)} {what}, from {last.name!r} to {first.name!r}"
    entry, remedy = arrays.entries[first.at], VANISHING if kind == "vanishing" else EXPLODING
    return Finding(kind, entry.name, headline, entry.source, (*facts, size_of_ends), (), remedy)


def _change(first: Any, last: Any, sizes: Sequence[float], scale: float) -> tuple[str, Sequence[str]] | None:
    # What becomes of gradients of these sizes from the last layer to the first, and what that means.
    steps = [before / after for before, after in pairwise(sizes)]
    fall, growth = (sum(step < 1 / RATIO for step in steps), sum(step > RATIO for step in steps))
    smallest, largest = float(numpy.abs(first).mean()), float(numpy.abs(last).mean())
    if fall > len(steps) / 2 and sizes[0] * RATIO < sizes[-1]:
        return "vanishing", [BY_RATIO]
    if growth > len(steps) / 2 and sizes[0] > RATIO * sizes[-1]:
        return "exploding", [BY_RATIO, *([NOT_LARGE] if scale and sizes[0] / scale < 1 else [])]
    if scale and smallest / scale < SMALL <= largest / scale and sizes[0] * RATIO < sizes[-1]:
        return "vanishing", [BY_SMALL]
    if scale and sizes[0] / scale > LARGE and sizes[0] > RATIO * sizes[-1]:
        return "exploding", [BY_LARGE]
    return None
