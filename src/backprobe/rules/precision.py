"""Gradients that are too small for float16, according to histograms of magnitudes (``bp.Pace(histogram=n)``)."""

from __future__ import annotations

import math
from collections.abc import Iterator

from backprobe.record.exponents import Exponents
from backprobe.rules.alert import Alert, Sighting, alert
from backprobe.rules.rule import RULES
from backprobe.rules.window import SCALE, RunRows, Window

NORMAL, LEAST = -14, -24  # exponents of float16's smallest normal number, and of its smallest number
HALF = RULES["underflow"].threshold
FEWEST = 64  # histograms of fewer numbers are not examined


class Precision:
    """Looks at every gradient that has a histogram."""

    def __init__(self, rows: RunRows) -> None:
        self.seen: dict[int, Sighting] = {}

    def look(self, window: Window) -> None:
        reader, new = window.part.rows.reader, window.steps[window.fresh :]
        if not len(new) or not reader.has_exponents():
            return
        for at, name in enumerate([*window.gradients.names, *window.used.names]):
            if at not in self.seen:
                counted = reader.exponents(name, "grad", int(new[0])).items()
                kept = [(step, one) for step, one in counted if step <= new[-1] and step in new]
                found = [one for step, each in kept if (one := _underflow(window, name, step, each)) is not None]
                if found:
                    self.seen[at] = found[0]

    def alerts(self) -> Iterator[Alert]:
        headline = "the gradient of '{name}' underflows: a share of {number} is below float16's smallest normal number"
        remedy = "scale the loss (torch.amp.GradScaler), or bfloat16"
        yield from alert("underflow", [self.seen[at] for at in sorted(self.seen)], "grad", headline, remedy)


def _underflow(window: Window, name: str, step: int, found: Exponents) -> Sighting | None:
    if found.counts.sum() < FEWEST:
        return None
    scales = window.logged.get(SCALE)
    scale = 1.0 if scales is None else float(scales[1][scales[0] == step].mean())
    units = found.smallest * scale * 2.0**-LEAST
    normal = NORMAL - math.floor(math.log2(scale)) - found.low
    share = float(found.counts[: max(normal, 0)].sum() / found.counts.sum())
    if share > HALF and units == math.floor(units) and found.low + math.log2(scale) >= LEAST:
        return Sighting(step, name, share)
    return None
