"""Vanishing and exploding gradients: how the norm changes along layers whose names differ only in a number."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy

from backprobe.rules.alert import Alert, Sighting, alert
from backprobe.rules.rule import RULES
from backprobe.rules.window import Mask, Matrix, RunRows, Table, Window, first_of, lasting

FEWEST = 3  # the fewest layers of a series
VANISHED, EXPLODED = (RULES[kind].threshold for kind in ("vanishing", "exploding"))
REST = 1e-2
"""The ratio must be below this even without the layer with the largest drop. A head that starts at zero causes one
large drop, which is not an effect of depth.
"""
LASTING = 3  # gradients must vanish or explode in this number of successive steps
NUMBER = re.compile(r"\d+")
ORDER = "{} layers, from {!r} to {!r}; norms of the gradient there: {:.3g}, {:.3g}"
MEND = {
    "vanishing": "normalisation, residual connections, or an initialisation that preserves the variance",
    "exploding": "a smaller initialisation, normalisation, or a lower learning rate",
}


class Depth:
    """Finds vanishing and exploding gradients in every series of layers. Uses parameters only if no module
    has gradients.
    """

    def __init__(self, rows: RunRows) -> None:
        self.series: list[tuple[list[str], list[int]]] | None = None
        self.found: dict[tuple[str, int], tuple[Sighting, str]] = {}

    def look(self, window: Window) -> None:
        table = window.gradients if window.gradients else window.used
        if self.series is None:
            at = {name: row for row, name in enumerate(table.names)}
            self.series = [(names, [at[name] for name in names]) for names in series(table.names)]
        for number, (_, rows) in enumerate(self.series):
            missing = [kind for kind in MEND if (kind, number) not in self.found]
            if missing and _may_be(window.new(table.column("squares")), rows):
                self._along(table.some(rows), number, missing)

    def _along(self, table: Table, number: int, kinds: Sequence[str]) -> None:
        norms = table.norm
        norms = numpy.where(norms > 0, norms, numpy.nan)  # norms of exactly 0 have a rule of their own
        ratio, *masks = along(norms)
        for kind, mask in zip(MEND, masks, strict=True):
            held = lasting(table.window.wide(mask), LASTING)
            at = first_of(table.window, held)
            if at is not None and kind in kinds:
                self.found[kind, number] = _seen(table, norms, ratio, at)

    def alerts(self) -> Iterator[Alert]:
        for kind in MEND:
            own = [self.found[key] for key in sorted(self.found) if key[0] == kind]
            together = sorted(own, key=lambda one: one[0].step)
            facts = [fact for _, fact in together[:1]]
            yield from alert(kind, [seen for seen, _ in together], "grad.rms", said(kind), MEND[kind], facts)


def _may_be(squares: Matrix, rows: Sequence[int]) -> bool:
    # Does any step have a ratio of the first layer's norm to the last layer's that counts as vanished or exploded? Most
    # runs have no such step, so this cheap test comes first.
    first, last = squares[rows[0]], squares[rows[-1]]
    return bool(((first < VANISHED**2 * last) | (first > EXPLODED**2 * last)).any())


def series(names: Sequence[str]) -> list[list[str]]:
    """Groups of at least three names that differ in a single number, ordered by this number. Layers that ran in another
    order are no group.

    >>> series(["h.0.fc", "h.1.fc", "h.2.fc", "head"])
    [['h.0.fc', 'h.1.fc', 'h.2.fc']]
    """
    groups: dict[str, dict[int, str]] = {}
    for name in names:
        # skip return values: their number counts the values that one call returns, and not layers
        if name.rpartition(":")[2].partition(".")[0] == "return":
            continue
        for found in NUMBER.finditer(name):
            groups.setdefault(f"{name[: found.start()]}*{name[found.end() :]}", {})[int(found[0])] = name
    at = {name: place for place, name in enumerate(names)}
    ordered = [[group[number] for number in sorted(group)] for group in groups.values() if len(group) >= FEWEST]
    return [one for one in ordered if sorted(one, key=at.__getitem__) == one]


def along(norms: Matrix) -> tuple[Matrix, Mask, Mask]:
    """The first layer's norm divided by the last layer's, for each step, and the steps in which gradients vanish and
    explode.

    >>> along(numpy.array([[1e-6], [1e-3], [1.0]]))[1].tolist()
    [True]
    """
    with numpy.errstate(all="ignore"):
        ratio: Matrix = norms[0] / norms[-1]
        drops = norms[:-1] / norms[1:]
        smallest = numpy.where(numpy.isnan(drops), 1, drops).min(axis=0)
        rest = ratio / numpy.minimum(smallest, 1)
        vanished: Mask = (ratio < VANISHED) & (rest < REST)
        exploded: Mask = ratio > EXPLODED
    return ratio, vanished, exploded


def said(kind: str) -> str:
    """The headline for a kind of finding, as a format with the fields ``name`` and ``number``."""
    verb = "vanish" if kind == "vanishing" else "explode"
    return f"the gradients {verb} on the way to '{{name}}': {{number}} times that at the last layer"


def _seen(table: Table, norms: Matrix, ratio: Matrix, at: int) -> tuple[Sighting, str]:
    names, place = table.names, at if norms.shape[1] > 1 else 0
    fact = ORDER.format(len(names), names[0], names[-1], norms[0, place], norms[-1, place])
    return Sighting(int(table.window.steps[at]), names[0], float(ratio[place])), fact
