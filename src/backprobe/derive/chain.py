"""The chain rule in numbers: the factor of each edge, the product along each path, and the sum of the products."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy

from backprobe.derive.evaluate import ROUNDINGS, NumberRounding, agree
from backprobe.derive.factors import CheckedFormula, factor_of, formula_of, single, size, to_array
from backprobe.derive.formula import Unwritten
from backprobe.derive.paths import Paths
from backprobe.record.entries import Entry
from backprobe.record.graph import Graph
from backprobe.record.names import split

MOST_PATHS = 16  # if there are more paths than this, none is listed


class Chain:
    """The content of a derivation, before any notation.

    ``labels`` are the names of entries in formulas. ``factors`` are the factors of edges and ``numbers`` the recorded
    partials between single numbers, both by the positions of consumer and input. ``scalars`` is True if all values on
    the paths are single numbers, whose partials can be multiplied. ``seed`` is the gradient of the output itself: 1
    unless a cotangent was given. ``total`` is the derivative: the recorded gradient, or computed from the recorded
    partials if another output was chosen. ``hidden`` are entries between the two values whose gradient is opaque, and
    that are therefore on no path.
    """

    def __init__(self, graph: Graph, between: Paths, *, recorded: bool, hidden: Sequence[int] = ()) -> None:
        entries = self.entries = graph.entries
        self.between, self.recorded, self.hidden = between, recorded, hidden
        self.output, self.input = entries[between.start], entries[between.end]
        self.edges = {(of, to): edge for of in between.order for to, edge in between.inputs[of].items()}
        self.formulas = {at: formula_of(graph, at) for at in between.order if at != between.end}
        operands = [at for known in self.formulas.values() if isinstance(known, CheckedFormula) for at in known.symbols]
        self.involved = list(dict.fromkeys([between.start, *between.order, between.end, *operands]))
        self.labels = label(entries, self.involved)
        self.factors = {
            (of, to): factor_of(graph, of, to, edge, self.formulas[of], self.labels)
            for (of, to), edge in self.edges.items()
        }
        self.numbers = {pair: factor.number for pair, factor in self.factors.items() if factor.number is not None}
        self.scalars = len(self.numbers) == len(self.edges) and size(self.input) == 1
        self.listed = between.listed() if 0 < between.count <= MOST_PATHS else []
        self.seed = self._seed()
        self.totals = self._swept(lambda number: number) if self.scalars else {}
        self.total = self.input.grad if recorded else self.totals[between.end]
        self.sum_agrees = self._adds_up()
        adds_up = self.sum_agrees is not False or bool(hidden)
        self.agrees = adds_up and all(factor.agrees for factor in self.factors.values())

    def _seed(self) -> float | None:
        # The gradient of the output itself; None if it has several elements or is complex.
        if not self.recorded:
            return 1.0
        try:
            return single(self.output.grad) if size(self.output) == 1 else None
        except Unwritten:  # the cotangent is complex
            return None

    def _swept(self, of_number: Callable[[float], float]) -> dict[int, float]:
        # Return the derivative of the output with respect to each value on the paths, from the recorded partials alone.
        # Each derivative is a sum of products over all paths, computed in a single pass from the output to the inputs.
        # ``of_number`` is applied to each partial first.
        assert self.seed is not None
        found = dict.fromkeys(self.between.order, 0.0)
        found[self.between.start] = of_number(self.seed)
        for (of, to), number in self.numbers.items():
            found[to] += found[of] * of_number(number)
        return found

    def is_one_of_several(self, of: int, to: int) -> bool:
        """Does one value flow into the other along more paths than their direct edge?"""
        return self.between.count > 1 and any(
            each != to and self.between.leads(each, to) for each in self.between.inputs[of]
        )

    def product(self, path: Sequence[int]) -> float:
        """The product of the recorded partials along a path."""
        assert self.seed is not None
        return math.prod((self.numbers[pair] for pair in pairwise(path)), start=self.seed)

    def contributions(self) -> dict[int, Any]:
        """The contributions to the value's gradient, by the consumers that use the value directly."""
        return {of: edge.contribution for (of, to), edge in self.edges.items() if to == self.between.end}

    def _adds_up(self) -> bool | None:
        # Does the sum over the paths equal the recorded gradient? None if that cannot be told, for example because no
        # gradient was recorded for this output.
        if not self.recorded or self.between.start == self.between.end or not self.edges:
            return None
        rounding = NumberRounding.of(self.entries[at].dtype for at in self.between.order)
        try:
            if self.scalars:
                magnitude = self._swept(abs)[self.between.end]
                slack = ROUNDINGS * (rounding.eps * magnitude * len(self.edges) + rounding.tiny)
                return agree(self.totals[self.between.end], slack, single(self.total), rounding)
            return self._sums_up(rounding)
        except Unwritten:
            return None

    def _sums_up(self, rounding: NumberRounding) -> bool | None:
        shape = self.input.shape
        flows = list(self.contributions().values())
        if shape is None or any(flow is None for flow in flows):
            return None
        *found, total = (to_array(each, shape) for each in (*flows, self.total))
        with numpy.errstate(all="ignore"):
            magnitudes = sum((numpy.abs(each) for each in found), numpy.abs(total))
            slack = ROUNDINGS * (numpy.nan_to_num(rounding.eps * magnitudes, posinf=0.0) + rounding.tiny)
            return agree(sum(found), slack, total, rounding)


def label(entries: Sequence[Entry], involved: Iterable[int]) -> dict[int, str]:
    """Return the names of entries in formulas: the local if it is unique among them, else the printed name.

    If a value has several names, the first one that is a variable is used, such as ``y`` in ``return func2(z)``,
    although the value is printed as ``return``.
    """
    found = {at: _local(entries[at]) for at in involved}
    while True:
        counts = Counter(found.values())
        shared = {at: entries[at].name for at, name in found.items() if counts[name] > 1 and name != entries[at].name}
        if not shared:
            return found
        found |= shared


def _local(entry: Entry) -> str:
    for name in (entry.name, *entry.aliases):
        local = split(name)[1] or name
        if local != "return" and not local.startswith(("return.", "return#", "of()")):
            return local
    return entry.name
