"""Some of a layer's units are dead: their bias and their weights get a gradient of exactly 0, step after step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy

from backprobe.rules.alert import Alert, Sighting, alert
from backprobe.rules.parameters import is_bias
from backprobe.rules.rule import RULES
from backprobe.rules.units import OF_DEAD
from backprobe.rules.window import Firsts, Mask, Matrix, RunRows, Window, lasting

HALF = RULES["dead_units"].threshold
# The number of steps that are compared, and how many of them must have the smallest number of zeros. The number of
# units that are merely silent varies from step to step.
LASTING, OFTEN = 10, 6
FEWEST = 8  # the fewest rows of a value, as in ``bp.health``
SOME_DEAD = "{off} of {units} units of {{name!r}} are dead"
ZERO = (
    "in {steps} steps on end the gradients of {bias!r} and {weight!r} are exactly 0 for as many, over {rows} rows each"
)


@dataclass(frozen=True)
class BiasedLayer:
    """A layer's row numbers: its bias, its weight, and the values returned by its own module and by the one
    that ran next.
    """

    bias: int
    weight: int
    values: tuple[int, ...]


class DeadUnits:
    """Finds layers in which more than half of the units are dead, but not all.

    The gradient of the bias must be 0 for the same number of units in most steps. A further unit may be silent in some
    steps. A ReLU behind the layer is recognised by the returned values: none is negative, and the share of zeros is at
    least as large.
    """

    def __init__(self, rows: RunRows) -> None:
        self.dead = Firsts()
        self.facts: dict[str, tuple[str, str]] = {}  # by name: the beginning of the headline, and the supporting fact

    def look(self, window: Window) -> None:
        used, values = window.used, window.values
        if not used or not values or not len(window.steps):
            return
        biases = [at for at, name in enumerate(used.names) if is_bias(name)]
        zeros, count = (used.some(biases).column(column) for column in ("zeros", "count"))
        is_part = (zeros > HALF * count) & (zeros < count)
        candidates = numpy.flatnonzero(window.new(is_part).any(axis=1)) if biases else numpy.empty(0, int)
        for at in candidates.tolist():
            layer = _layer(window, biases[at])
            if layer is not None:
                self._judge(window, layer, window.wide(is_part[at : at + 1]))

    def _judge(self, window: Window, layer: BiasedLayer, is_part: Mask) -> None:
        bias, weight = (window.used.some([row]) for row in (layer.bias, layer.weight))
        zeros, units = (window.wide(bias.column(column)) for column in ("zeros", "count"))
        least, is_often = _least(zeros)
        with numpy.errstate(all="ignore"):
            of_rows = weight.column("zeros") * units >= zeros * weight.column("count")
            for row in layer.values:
                table = window.values.some([row])
                is_relu = (table["min"] >= 0) & (table.column("zeros") * units >= zeros * table.column("count"))
                is_relu = is_relu & (table.column("count") >= FEWEST * units) & (table.column("count") % units == 0)
                held = window.wide(is_part & of_rows & is_relu)
                mask = lasting(held, LASTING) & is_often
                self.dead.look(window.values, [row], mask, least / units)
                if mask.any():
                    at = int(mask[0].argmax())
                    rows = int(window.wide(table.column("count"))[0, at] / units[0, at])
                    self._note(window, layer, row, (int(least[0, at]), int(units[0, at]), rows))

    def _note(self, window: Window, layer: BiasedLayer, row: int, numbers: tuple[int, int, int]) -> None:
        off, units, rows = numbers
        names = window.used.names
        seen = ZERO.format(steps=LASTING, bias=names[layer.bias], weight=names[layer.weight], rows=rows)
        self.facts.setdefault(window.values.names[row], (SOME_DEAD.format(off=off, units=units), seen))

    def alerts(self) -> Iterator[Alert]:
        seen: list[Sighting] = sorted(self.dead.all, key=lambda one: one.step)
        if seen:
            headline, fact = self.facts[seen[0].name]
            yield from alert("dead_units", seen, "grad.zeros", headline, OF_DEAD, [fact])


def _least(zeros: Matrix) -> tuple[Matrix, Mask]:
    # The smallest number in the last steps, and whether most of these steps have this number.
    least, is_often = numpy.zeros(zeros.shape), numpy.zeros(zeros.shape, bool)
    if zeros.shape[1] >= LASTING:
        last = numpy.lib.stride_tricks.sliding_window_view(zeros, LASTING, axis=1)
        least[:, LASTING - 1 :] = last.min(axis=-1)
        is_often[:, LASTING - 1 :] = (last == last.min(axis=-1, keepdims=True)).sum(axis=-1) >= OFTEN
    return least, is_often


def _layer(window: Window, bias: int) -> BiasedLayer | None:
    # The layer of a bias: its only other parameter, and the values returned by its module and by the module that ran
    # next. None if the module has no or several other parameters, or if it has no value.
    used, values = window.used, window.values
    module = used.names[bias].rpartition(".")[0]
    own = [at for at, name in enumerate(used.names) if at != bias and name.rpartition(".")[0] == module]
    ran = [at for at, name in enumerate(values.names) if name.partition(":")[0] == module]
    if len(own) != 1 or not ran:
        return None
    behind = [at for at in (ran[-1], ran[-1] + 1) if at < len(values.names)]
    return BiasedLayer(bias, own[0], tuple(behind))
