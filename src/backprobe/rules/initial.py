"""Weights that are far too large or small as the training begins, whatever lies between the layers."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy

from backprobe.rules.alert import Alert, Seen, alert
from backprobe.rules.history import History
from backprobe.rules.rule import RULES

EXPLODED, VANISHED = (RULES[f"{how}_weights"].threshold for how in ("large", "small"))
GROWN = 3.0
"""The factor by which values must grow as well: large weights alone may be right, as where the layer divides them
(an equalised learning rate)."""
FEWEST = 2  # layers
REMEDY = "the initialisation: PyTorch's own, or torch.nn.init.kaiming_normal_ and xavier_uniform_"


def check(history: History) -> Iterator[Alert]:
    """After the first step, of layers with a weight and a bias: the inputs are as many as weights for each bias."""
    if not len(history.steps) or not history.parameters.rows:
        return
    gains = _gains(history)
    if len(gains) < FEWEST:
        return
    middle, step = float(numpy.median([*gains.values()])), int(history.steps[0])
    headline = "the weights are {}: half of the layers have a gain {} {{number}}, as '{{name}}'"
    seen = [Seen(step, min(gains, key=lambda name: abs(gains[name] - middle)), middle)]
    if middle > EXPLODED and _growth(history, gains) > GROWN:
        said = headline.format("large", "of at least")
        yield from alert("large_weights", seen, "param.rms", said, REMEDY)
    elif 0 < middle < VANISHED:
        said = headline.format("small", "of at most")
        yield from alert("small_weights", seen, "param.rms", said, REMEDY)


def _gains(history: History) -> dict[str, float]:
    # By the name of a weight, how many times the size of its inputs its layer returns.
    known = {name: at for at, name in enumerate(history.parameters.names)}
    squares, counts = (history.parameters[column][:, 0] for column in ("squares", "count"))
    found = {}
    for name, at in known.items():
        module, dot, own = name.rpartition(".")
        for weight in ("weight", "kernel"):
            bias = known.get(f"{module}{dot}{own.replace(weight, 'bias')}") if weight in own else None
            if bias is not None and 0 < counts[bias] < counts[at] and numpy.isfinite(squares[at]):
                found[name] = math.sqrt(squares[at] / counts[bias])
    return found


def _growth(history: History, gains: dict[str, float]) -> float:
    # How much larger these layers return values than what ran before them did: the median.
    if not history.values.rows:
        return 0.0
    names, size = history.values.names, history.values["rms"][:, 0]
    modules = {name.rpartition(".")[0] for name in gains}
    places = [at for at, name in enumerate(names) if at and name.partition(":")[0] in modules]
    with numpy.errstate(all="ignore"):
        grown = [size[at] / size[at - 1] for at in places]
    kept = [one for one in grown if numpy.isfinite(one)]
    return float(numpy.median(kept)) if kept else 0.0
