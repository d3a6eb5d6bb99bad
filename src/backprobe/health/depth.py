"""Vanishing and exploding gradients: how the size of gradients changes from layer to layer.

Layers are the outputs of modules whose names differ only in a number (``h.0``, ``h.1``), the bindings of one line of a
loop that have one shape (``u#0``, ``u#1``), or the steps of a loop that is a single operation, such as ``scan``. In the
first two cases each must be computed from the one before. ``rules`` define vanishing and exploding by ratios, which do
not depend on the scale of the loss. A threshold on magnitudes is used only if that scale is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy

from backprobe.findings.phrasing import quoted
from backprobe.findings.report import Finding
from backprobe.health.record_arrays import MOST, RecordArrays, rms
from backprobe.record.graph import NUMBER, Graph, reached
from backprobe.record.names import split
from backprobe.record.nested_scopes import is_return
from backprobe.rules.depth import FEWEST, MEND, ORDER, along, said
from backprobe.rules.rule import RULES

LARGE, HUGE = RULES["large_gradients"].threshold, 1e8
REMEDY = "gradient clipping by norm, a smaller initialisation, or a lower learning rate"


def check(arrays: RecordArrays) -> Iterator[Finding]:
    """Check each series of layers, and single values."""
    before: list[tuple[str, list[Layer]]] = []
    for layers in sorted((*_series(arrays), *_loops(arrays)), key=len, reverse=True):
        finding = _along(arrays, layers)
        if finding is not None and not any(_is_part(arrays, layers, of) for kind, of in before if kind == finding.kind):
            before.append((finding.kind, layers))
            yield finding
    if arrays.scale:
        yield from _large(arrays, abs(arrays.scale))


@dataclass(frozen=True)
class Layer:
    """One layer of a series: its name and its gradient."""

    at: int
    name: str
    gradient: Any


def _is_part(arrays: RecordArrays, layers: Sequence[Layer], of: Sequence[Layer]) -> bool:
    # Is the series ``layers`` interleaved with the series ``of``, as activations are with the layers before them?
    (first, last), (begin, end) = [(one[0].at, one[-1].at) for one in (layers, of)]
    shared = min(last, end) - max(first, begin)
    return 2 * shared > last - first and _leads(arrays.graph, begin, last) and _leads(arrays.graph, first, end)


def _large(arrays: RecordArrays, scale: float) -> Iterator[Finding]:
    # One finding for parameters and other leaves with large gradients; if there are none, for other values.
    leaves, others = dict[str, float](), dict[str, float]()
    for at, (entry, grad) in enumerate(zip(arrays.entries, arrays.grads, strict=True)):
        size = 0.0 if grad is None else rms(grad) / scale
        if (at in arrays.graph.parameters or entry.is_leaf) and size > LARGE:
            leaves[entry.name] = size
        elif size > HUGE:
            others[entry.name] = size
    found = leaves or others
    if found:
        worst = max(found, key=found.__getitem__)
        headline = f"the gradients of {quoted(list(found), MOST)} are large: rms {found[worst]:.3g} at {worst!r}"
        source = arrays.entries[arrays.graph.positions[worst]].source if found is others else None
        yield Finding("large_gradients", worst, headline, source, (RULES["large_gradients"].means,), (), REMEDY)


def _series(arrays: RecordArrays) -> list[list[Layer]]:
    # Values whose names differ only in a number, each computed from the one before. Parameters are left out.
    found: dict[tuple[str, object], dict[int, int]] = {}
    for full, at in arrays.record.names.items():
        if split(full)[1] is None or arrays.grads[at] is None or arrays.graph.begins(at):
            continue
        entry = arrays.entries[at]
        for number in NUMBER.finditer(full):
            is_count = full[: number.start()].endswith("#")
            if not is_count and not is_return(split(full)[1]):
                continue
            alike = (entry.shape, entry.source and entry.source.line) if is_count else None
            key = f"{full[: number.start()]}*{full[number.end() :]}"
            found.setdefault((key, alike), {})[int(number[0])] = at
    series = list[list[int]]()
    for one in found.values():
        ordered = list(dict.fromkeys(one[number] for number in sorted(one)))
        chains = _chains(arrays, ordered) if len(ordered) >= FEWEST and ordered == sorted(ordered) else []
        series += [chain for chain in chains if len(chain) >= FEWEST and chain not in series]
    return [[Layer(at, arrays.entries[at].name, arrays.grads[at]) for at in chain] for chain in series]


def _chains(arrays: RecordArrays, ordered: Sequence[int]) -> list[list[int]]:
    # Split the values into chains in which each value is computed from the one before it. Samples that a loop
    # processes, and experts side by side, also have numbered names, but are not layers of depth.
    chains = [[ordered[0]]]
    for before, at in pairwise(ordered):
        if _leads(arrays.graph, before, at):
            chains[-1].append(at)
        else:
            chains.append([at])
    return chains


def _leads(graph: Graph, start: int, end: int) -> bool:
    # Is one value computed from another, along edges, or are they the same value?
    return start in reached([end], lambda one: [at for at in graph.inputs[one] if at >= start])


def _loops(arrays: RecordArrays) -> Iterator[list[Layer]]:
    # Yield the steps of loops that the framework runs as one operation, in which each step passes its result to the
    # next.
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
    # Does each step receive the result of the step before?
    return len(left) > 1 and bool(left[:-1].any()) and numpy.array_equal(left[:-1], given[1:])


def _along(arrays: RecordArrays, series: Sequence[Layer]) -> Finding | None:
    # How the gradient changes from the last layer of a series to its first.
    sizes = [(layer, float(numpy.linalg.norm(layer.gradient))) for layer in series]
    known = [(layer, norm) for layer, norm in sizes if norm]  # gradients of 0 are reported by zeros.py
    if len(known) < FEWEST:
        return None
    layers, norms = [layer for layer, _ in known], numpy.array([[norm] for _, norm in known])
    ratio, vanished, exploded = (one.item() for one in along(norms))
    is_small = rms(layers[0].gradient) < abs(arrays.scale or 0.0)
    # If even the first layer's gradient is smaller than that of the loss itself, nothing has exploded: for example,
    # with a loss at each depth, more and more gradients are added up.
    if not vanished and (not exploded or is_small):
        return None
    kind, ends = "vanishing" if vanished else "exploding", norms[[0, -1], 0].tolist()
    first, last, entry = layers[0], layers[-1], arrays.entries[layers[0].at]
    facts = [RULES[kind].means, ORDER.format(len(layers), first.name, last.name, *ends)]
    headline = said(kind).format(name=entry.name, number=f"{ratio:.3g}")
    return Finding(kind, entry.name, headline, entry.source, tuple(facts), (), MEND[kind])
