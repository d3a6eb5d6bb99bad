"""Vanishing and exploding gradients: how their size changes from layer to layer, as ratios to neighbours.

Layers are what modules return, in one shape, whose names differ in one number alone: ``h.0``, ``h.1``; or what one line
of a loop bound, ``u#0``, ``u#1``. Ratios need no scale; the thresholds on magnitudes are used only where it is known.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy

from backprobe.findings.report import Finding
from backprobe.health.record_arrays import RecordArrays, listed, rms
from backprobe.record.names import split

FEWEST = 4  # layers
RATIO = math.sqrt(10)  # of rms: a variance ratio of 10
SMALL, LARGE = 1e-7, 1e4
BY_RATIO = "judged by neighbours: the variance changes more than 10 times from layer to layer, in most of them"
BY_SMALL = "judged vanishing: mean |gradient| < 1e-7 (SageMaker Debugger), and falling towards the input"
BY_LARGE = "judged exploding: rms > 1e4 (TorchLens)"
NOT_LARGE = "by its ratio alone: it is below 1 everywhere, as where each depth has a loss and these weigh less and less"
VANISHING = "normalisation, residual connections, or an initialisation that keeps the variance"
EXPLODING = "clipping by the norm, a smaller initialisation, or a lower learning rate"
RETURNED = re.compile(r":return(#\d+)?(\.|$)")
NUMBER = re.compile(r"(?<![\w])\d+(?![\w])")


def check(patient: RecordArrays) -> Iterator[Finding]:
    """Look at each series of layers, and at the parameters by themselves."""
    for layers in _series(patient):
        finding = _along(patient, layers)
        if finding is not None:
            yield finding
    if patient.scale:
        yield from _large(patient, abs(patient.scale))


def _large(patient: RecordArrays, scale: float) -> Iterator[Finding]:
    """The parameters and other leaves whose gradients are large by themselves, as one finding."""
    found = {}
    for at, entry in enumerate(patient.entries):
        is_parameter = entry.name in patient.record.names and split(entry.name)[1] is None
        grad = patient.grad(at) if is_parameter or entry.is_leaf else None
        if grad is not None and rms(grad) / scale > LARGE:
            found[entry.name] = rms(grad) / scale
    if found:
        worst = max(found, key=found.__getitem__)
        headline = f"the gradients of {listed(list(found))} explode: rms {found[worst]:.3g} at {worst!r}"
        yield Finding("exploding", worst, headline, None, (BY_LARGE,), (), EXPLODING)


def _series(patient: RecordArrays) -> list[list[int]]:
    """The values of one shape whose names differ in one number, in the order of execution; parameters are none."""
    found: dict[tuple[str, object], dict[int, int]] = {}
    for full, at in patient.record.names.items():
        if split(full)[1] is None or patient.grad(at) is None:
            continue
        entry = patient.entries[at]
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


def _along(patient: RecordArrays, layers: Sequence[int]) -> Finding | None:
    """What happens to the gradient from the last layer of a series to its first."""
    known = {at: size for at in layers if (size := rms(patient.grad(at)))}  # zeros are found by themselves
    layers, sizes = list(known), list(known.values())
    if len(layers) < FEWEST:
        return None
    first, last = layers[0], layers[-1]
    steps = [before / after for before, after in pairwise(sizes)]
    fall, growth = (sum(step < 1 / RATIO for step in steps), sum(step > RATIO for step in steps))
    smallest = float(numpy.abs(patient.grad(first)).mean())
    largest = float(numpy.abs(patient.grad(last)).mean())
    scale = abs(patient.scale or 0.0)
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
    names = [patient.entries[at].name for at in layers]
    facts.append(f"rms of the gradient: {sizes[0]:.3g} at {names[0]!r}, {sizes[-1]:.3g} at {names[-1]!r}")
    verb = "vanishes" if kind == "vanishing" else "explodes"
    headline = f"the gradient {verb} over {len(layers)} layers, from {names[-1]!r} to {names[0]!r}"
    entry = patient.entries[first]
    return Finding(
        kind, entry.name, headline, entry.source, tuple(facts), (), VANISHING if kind == "vanishing" else EXPLODING
    )
