"""Vanishing and exploding gradients: how the size of gradients changes from layer to layer.

Layers are the outputs of modules, of one shape, whose names differ in one number alone: ``h.0``, ``h.1``; or the
bindings of one line of a loop, ``u#0``, ``u#1``. Ratios do not depend on the scale of the loss; thresholds on
magnitudes are used only where that is known.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy

from backprobe.findings.phrasing import quoted
from backprobe.findings.report import Finding
from backprobe.health.record_arrays import MOST, RecordArrays, rms
from backprobe.record.names import split

FEWEST = 4  # layers
RATIO = math.sqrt(10)  # of rms: a variance ratio of 10
SMALL, LARGE = 1e-7, 1e4
BY_RATIO = "compared with neighbours: the variance changes more than 10-fold from layer to layer, in most of them"
BY_SMALL = "vanishing means: mean |gradient| < 1e-7 (SageMaker Debugger), and falling from the output to the input"
BY_LARGE = "exploding means: rms > 1e4 (TorchLens)"
NOT_LARGE = (
    "only the ratio is large: the gradient is below 1 everywhere, as with a loss at each depth whose weight shrinks"
)
VANISHING = "normalisation, residual connections, or an initialisation that preserves the variance"
EXPLODING = "gradient clipping by norm, a smaller initialisation, or a lower learning rate"
RETURNED = re.compile(r":return(#\d+)?(\.|$)")
NUMBER = re.compile(r"(?<![\w])\d+(?![\w])")


def check(arrays: RecordArrays) -> Iterator[Finding]:
    """Check each series of layers, and the parameters by themselves."""
    for layers in _series(arrays):
        finding = _along(arrays, layers)
        if finding is not None:
            yield finding
    if arrays.scale:
        yield from _large(arrays, abs(arrays.scale))


def _large(arrays: RecordArrays, scale: float) -> Iterator[Finding]:
    """The parameters and other leaves whose gradients are large by themselves, in one finding."""
    found = {}
    for at, entry in enumerate(arrays.entries):
        grad = arrays.grads[at] if at in arrays.graph.parameters or entry.is_leaf else None
        if grad is not None and rms(grad) / scale > LARGE:
            found[entry.name] = rms(grad) / scale
    if found:
        worst = max(found, key=found.__getitem__)
        headline = f"the gradients of {quoted(list(found), MOST)} explode: rms {found[worst]:.3g} at {worst!r}"
        yield Finding("exploding", worst, headline, None, (BY_LARGE,), (), EXPLODING)


def _series(arrays: RecordArrays) -> list[list[int]]:
    """The values of one shape whose names differ in one number, in the order of execution; parameters are left out."""
    found: dict[tuple[str, object], dict[int, int]] = {}
    for full, at in arrays.record.names.items():
        if split(full)[1] is None or arrays.grads[at] is None:
            continue
        entry = arrays.entries[at]
        for number in NUMBER.finditer(full):
            is_count = full[: number.start()].endswith("#")
            if not is_count and not RETURNED.search(full):
                continue
            alike = entry.shape, is_count and (None if entry.source is None else entry.source.line)
            key = f"{full[: number.start()]}*{full[number.end() :]}"
            found.setdefault((key, alike), {})[int(number[0])] = at
    series = []
    for one in found.values():
        ordered = list(dict.fromkeys(one[number] for number in sorted(one)))
        if len(ordered) >= FEWEST and ordered == sorted(ordered) and ordered not in series:
            series.append(ordered)
    return series


def _along(arrays: RecordArrays, layers: Sequence[int]) -> Finding | None:
    """How the gradient changes from the last layer of a series to its first."""
    known = {at: size for at in layers if (size := rms(arrays.grads[at]))}  # zeros.py reports those that are 0
    layers, sizes = list(known), list(known.values())
    if len(layers) < FEWEST:
        return None
    first, last = layers[0], layers[-1]
    steps = [before / after for before, after in pairwise(sizes)]
    fall, growth = (sum(step < 1 / RATIO for step in steps), sum(step > RATIO for step in steps))
    smallest = float(numpy.abs(arrays.grads[first]).mean())
    largest = float(numpy.abs(arrays.grads[last]).mean())
    scale = abs(arrays.scale or 0.0)
    facts: list[str] = []
    if fall > len(steps) / 2 and sizes[0] * RATIO < sizes[-1]:
        kind, facts = "vanishing", [BY_RATIO]
    elif growth > len(steps) / 2 and sizes[0] > RATIO * sizes[-1]:
        kind, facts = "exploding", [BY_RATIO, *([NOT_LARGE] if scale and sizes[0] / scale < 1 else [])]
    elif scale and smallest / scale < SMALL <= largest / scale and sizes[0] * RATIO < sizes[-1]:
        kind, facts = "vanishing", [BY_SMALL]
    elif scale and sizes[0] / scale > LARGE and sizes[0] > RATIO * sizes[-1]:
        kind, facts = "exploding", [BY_LARGE]
    else:
        return None
    names = [arrays.entries[at].name for at in layers]
    facts.append(f"rms of the gradient: {sizes[0]:.3g} at {names[0]!r}, {sizes[-1]:.3g} at {names[-1]!r}")
    verb = "vanishes" if kind == "vanishing" else "explodes"
    headline = f"the gradient {verb} over {len(layers)} layers, from {names[-1]!r} to {names[0]!r}"
    entry = arrays.entries[first]
    return Finding(
        kind, entry.name, headline, entry.source, tuple(facts), (), VANISHING if kind == "vanishing" else EXPLODING
    )
