"""Gradients that are too small for float16, seen in the magnitudes that were counted (``bp.Pace(histogram=n)``)."""

from __future__ import annotations

import math
from collections.abc import Iterator

from backprobe.rules.alert import Alert, Seen, alert
from backprobe.rules.history import SCALE, History
from backprobe.rules.rule import RULES

NORMAL, LEAST = -14, -24  # exponents of float16's smallest normal number, and of its smallest
HALF = RULES["underflow"].threshold
FEWEST = 64  # numbers


def check(history: History) -> Iterator[Alert]:
    rows = [*history.gradients.rows, *history.used.rows]
    seen = [one for row in rows if (one := _underflow(history, row.name)) is not None]
    headline = "the gradient of '{name}' underflows: a share of {number} is below float16's smallest normal number"
    remedy = "scale the loss (torch.amp.GradScaler), or bfloat16"
    yield from alert("underflow", seen, "grad", headline, remedy)


def _underflow(history: History, name: str) -> Seen | None:
    scales = history.logged.get(SCALE)
    for step, found in history.reader.exponents(name, "grad").items():
        if step not in history.steps or found.counts.sum() < FEWEST:
            continue
        scale = 1.0 if scales is None else float(scales[1][scales[0] == step].mean())
        units = found.smallest * scale * 2.0**-LEAST
        normal = NORMAL - math.floor(math.log2(scale)) - found.low
        share = float(found.counts[: max(normal, 0)].sum() / found.counts.sum())
        if share > HALF and units == math.floor(units) and found.low + math.log2(scale) >= LEAST:
            return Seen(step, name, share)
    return None
