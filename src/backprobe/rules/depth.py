"""Vanishing and exploding gradients: how their norm changes along layers whose names differ in one number alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy

from backprobe.rules.alert import Alert, Seen, alert
from backprobe.rules.history import History, Mask, Matrix, Table, lasting
from backprobe.rules.rule import RULES

FEWEST = 3  # layers
VANISHED, EXPLODED = (RULES[kind].threshold for kind in ("vanishing", "exploding"))
REST = 1e-2
"""What the ratio must be without the one layer that divides most: a head that starts at zero is not a depth."""
LASTING = 3  # steps
NUMBER = re.compile(r"\d+")
ORDER = "{} layers, from {!r} to {!r}; norms of the gradient there: {:.3g}, {:.3g}"
MEND = {
    "vanishing": "normalisation, residual connections, or an initialisation that preserves the variance",
    "exploding": "a smaller initialisation, normalisation, or a lower learning rate",
}


def check(history: History) -> Iterator[Alert]:
    """Check each series of layers; parameters only where no module's gradients are there."""
    table = history.gradients if history.gradients.rows else history.used
    found: dict[str, list[tuple[Seen, str]]] = {"vanishing": [], "exploding": []}
    for names in series(table.names):
        for kind, seen, fact in _along(history, table.part(names)):
            found[kind].append((seen, fact))
    for kind in ("vanishing", "exploding"):
        together = sorted(found[kind], key=lambda one: one[0].step)
        facts = [fact for _, fact in together[:1]]
        yield from alert(kind, [seen for seen, _ in together], "grad.rms", said(kind), MEND[kind], facts)


def series(names: Sequence[str]) -> list[list[str]]:
    """Names that differ in one number alone, in the order of it, where that is the order in which they ran.

    >>> series(["h.0.fc", "h.1.fc", "h.2.fc", "head"])
    [['h.0.fc', 'h.1.fc', 'h.2.fc']]
    """
    groups: dict[str, dict[int, str]] = {}
    for name in names:
        if name.rpartition(":")[2].partition(".")[0] == "return":  # the numbers in it count what one call returns
            continue
        for found in NUMBER.finditer(name):
            groups.setdefault(f"{name[: found.start()]}*{name[found.end() :]}", {})[int(found[0])] = name
    at = {name: place for place, name in enumerate(names)}
    ordered = [[group[number] for number in sorted(group)] for group in groups.values() if len(group) >= FEWEST]
    return [one for one in ordered if sorted(one, key=at.__getitem__) == one]


def along(norms: Matrix) -> tuple[Matrix, Mask, Mask]:
    """Of the norms of layers × steps: the first divided by the last, and where gradients vanish and explode.

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
    """The headline of a kind: a format of ``name`` and ``number``."""
    verb = "vanish" if kind == "vanishing" else "explode"
    return f"the gradients {verb} on the way to '{{name}}': {{number}} times that at the last layer"


def _along(history: History, table: Table) -> Iterator[tuple[str, Seen, str]]:
    norms = table.norm
    norms = numpy.where(norms > 0, norms, numpy.nan)  # those that are exactly 0 have a rule of their own
    if norms.shape[1] < LASTING:
        return
    ratio, vanished, exploded = along(norms)
    for kind, mask in (("vanishing", vanished), ("exploding", exploded)):
        held = lasting(mask[None], LASTING)[0]
        if held.any():
            yield kind, *_seen(history, table, norms, ratio, int(held.argmax()))


def _seen(history: History, table: Table, norms: Matrix, ratio: Matrix, at: int) -> tuple[Seen, str]:
    names = table.names
    fact = ORDER.format(len(names), names[0], names[-1], norms[0, at], norms[-1, at])
    return Seen(int(history.steps[at]), names[0], float(ratio[at])), fact
