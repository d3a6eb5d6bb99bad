"""Weights that are far too large or small at the start of a training, whatever lies between the layers."""

from __future__ import annotations

import math

import numpy

from backprobe.rules.alert import Sighting, alert
from backprobe.rules.rule import RULES
from backprobe.rules.window import OneAlert, Table, Window

EXPLODED, VANISHED = (RULES[f"{how}_weights"].threshold for how in ("large", "small"))
GROWN = 3.0
"""Values must also grow by this factor. Large weights alone may be correct, for example if the layer scales them down
(an equalised learning rate).
"""
FEWEST = 2  # weights are examined if the factors of at least this number of layers are known
REMEDY = "the initialisation: PyTorch's own, or torch.nn.init.kaiming_normal_ and xavier_uniform_"


class Initial(OneAlert):
    """Examines the first step, and layers with a weight and a bias. Their number of inputs is known: it is the count of
    weights divided by the count of biases.
    """

    def look(self, window: Window) -> None:
        if window.first or window.fresh or not len(window.steps) or not window.parameters:
            return
        gains = _gains(window.parameters)
        if len(gains) < FEWEST:
            return
        middle, step = float(numpy.median([*gains.values()])), int(window.steps[0])
        headline = "the weights are {}: half of the layers have a gain {} {{number}}, as '{{name}}'"
        seen = [Sighting(step, min(gains, key=lambda name: abs(gains[name] - middle)), middle)]
        if middle > EXPLODED and _growth(window.values, gains) > GROWN:
            said = headline.format("large", "of at least")
            self.found = alert("large_weights", seen, "param.rms", said, REMEDY)
        elif 0 < middle < VANISHED:
            said = headline.format("small", "of at most")
            self.found = alert("small_weights", seen, "param.rms", said, REMEDY)


def _gains(parameters: Table) -> dict[str, float]:
    # For each weight, by name, the factor by which its layer multiplies the size of its inputs.
    known = {name: at for at, name in enumerate(parameters.names)}
    squares, counts = (parameters[column][:, 0] for column in ("squares", "count"))
    found = {}
    for name, at in known.items():
        module, dot, own = name.rpartition(".")
        for weight in ("weight", "kernel"):
            bias = known.get(f"{module}{dot}{own.replace(weight, 'bias')}") if weight in own else None
            if bias is not None and 0 < counts[bias] < counts[at] and numpy.isfinite(squares[at]):
                found[name] = math.sqrt(squares[at] / counts[bias])
    return found


def _growth(values: Table, gains: dict[str, float]) -> float:
    # The median factor by which the values that the layers in ``gains`` return are larger than the values recorded
    # before them; 0 if there are none.
    if not values:
        return 0.0
    names, size = values.names, values["rms"][:, 0]
    modules = {name.rpartition(".")[0] for name in gains}
    places = [at for at, name in enumerate(names) if at and name.partition(":")[0] in modules]
    with numpy.errstate(all="ignore"):
        grown = [size[at] / size[at - 1] for at in places]
    kept = [one for one in grown if numpy.isfinite(one)]
    return float(numpy.median(kept)) if kept else 0.0
