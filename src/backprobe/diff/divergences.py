"""Turns differences into findings: the line, the numbers, and the evidence that the difference begins at this line."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy

from backprobe.backends.rows import Rows
from backprobe.diff import text
from backprobe.diff.blame import Blame
from backprobe.diff.comparison import Comparison
from backprobe.diff.floor import eps_of
from backprobe.diff.likeness import likeness
from backprobe.diff.pairs import SHAPE, STATUS, VALUE, JudgedNumbers, Row
from backprobe.diff.report import Divergence
from backprobe.findings.phrasing import listed, plural
from backprobe.record.source import Source

GROWN = 100  # a value's error is worth a fact above this multiple of eps, and of the largest error of its inputs


class Divergences:
    """Makes the findings of a comparison."""

    def __init__(self, comparison: Comparison, blame: Blame) -> None:
        self.comparison, self.blame, self.rows = comparison, blame, comparison.rows

    def forward(self, at: int) -> Divergence:
        """Make a finding for the value of a pair."""
        row, comparison = self.rows[at], self.comparison
        of = "" if not comparison.is_leaf(at) else "parameter" if comparison.is_parameter(at) else "argument"
        inputs = [self.rows[one] for one in sorted(comparison.sources(at))]
        facts = [] if of else [text.evidence(inputs, "value"), *self._without_partner(at), text.first_line(row)]
        if of:
            facts += self._other_leaves(at)
        return self._made(at, row.value, of, row.b.source, facts, "forward")

    def backward(self, at: int) -> Divergence:
        """Make a finding for the gradient of a pair."""
        row, comparison = self.rows[at], self.comparison
        uses = [self.rows[one] for one in sorted(comparison.uses(at))]
        agree = [one for one in uses if not one.gradient.is_passed_on]
        cut = [self.rows[one] for one in sorted(comparison.uses_in_first_only(at))]
        facts = [text.evidence(agree, "gradient") if len(agree) == len(uses) else "", text.cut(cut) or text.uses(uses)]
        grown = list(self._grown(uses))
        facts += [*grown, *self._given_to(at)]
        near = cut if cut else uses if len(uses) == 1 else [row]
        return self._made(at, row.gradient, "gradient", near[0].b.source, facts, "backward", text.NOISE * bool(grown))

    def _grown(self, uses: Sequence[Row]) -> Iterator[str]:
        # Yield facts about values that differ far more than what they are computed from, though within their floors:
        # the two programs may compute another function there.
        at = {id(row): place for place, row in enumerate(self.rows)}
        for row in uses:
            sources = [self.rows[one] for one in self.comparison.sources(at[id(row)])]
            before = max((_relative(one) for one in sources), default=0.0)
            if sources and _relative(row) > GROWN * max(before, eps_of(row.a.dtype)) > 0:
                yield text.grown(row, before)

    def _given_to(self, at: int) -> Iterator[str]:
        # Yield a fact that names other arguments and parameters whose gradients also differ.
        names = [
            repr(self.rows[one].names[0]) for one in self.blame.gradients if self.comparison.is_leaf(one) and one != at
        ]
        if names:
            yield (
                f"of arguments and parameters, the gradient{'s' * (len(names) > 1)} of "
                f"{listed(names, text.MOST)} differ{'s' * (len(names) == 1)}, too"
            )

    def _made(
        self,
        at: int,
        judged: JudgedNumbers,
        of: str,
        source: Source | None,
        facts: Sequence[str],
        direction: str,
        remedy: str = "",
    ) -> Divergence:
        row = self.rows[at]
        kind = judged.kind if judged.kind != VALUE else of or VALUE
        error = judged.measure.relative if judged.measure is not None else math.inf
        seen = [*self._numbers(at, judged, direction), *facts]
        floor, matched = text.floor_text(judged.floor), text.matched(row)
        seen += [f"floor: {floor}"] * bool(floor and judged.kind == VALUE) + [matched] * bool(matched)
        return Divergence(
            kind,
            row.names[0],
            text.headline(row, judged, of),
            source,
            tuple(filter(None, seen)),
            remedy=remedy or (text.CHECK if direction == "backward" and judged.kind == VALUE else ""),
            other=row.names[1],
            direction=direction,
            error=error,
            excess=judged.excess,
            floor=floor,
            matched=row.match.how,
            measure=judged.measure,
        )

    def _numbers(self, at: int, judged: JudgedNumbers, direction: str) -> Iterator[str]:
        # Yield facts about the numbers of a pair, from a second and closer look.
        row, held = self.rows[at], self.comparison.held(at, direction)
        if judged.kind in (SHAPE, STATUS):
            return
        if judged.measure is None:
            yield f"{held[0]!r} in the first, {held[1]!r} in the second"
            return
        factor = 1.0 if direction == "forward" else self.comparison.factor or 1.0
        rows = None if judged.floor is None else self._rows(at, held)
        if rows is None or judged.floor is None:
            return
        seen = likeness(*rows, judged.floor, judged.measure.at, factor)
        coarser = max((row.a.dtype or "", row.b.dtype or ""), key=eps_of)
        yield from text.alike(seen) if judged.kind == VALUE else ()
        yield from text.numbers(judged.measure, seen, coarser)

    def _rows(self, at: int, held: Sequence[Any]) -> tuple[Rows, Rows] | None:
        one = self.comparison
        are_tensors = all(
            isinstance(tensor, numpy.ndarray) or arrays.is_tensor(tensor)
            for arrays, tensor in zip(one.arrays, held, strict=True)
        )
        return one.rows_of(at, held) if are_tensors else None

    def _other_leaves(self, at: int) -> Iterator[str]:
        others = [one for one in self.blame.values if self.comparison.is_leaf(one) and one != at]
        if others:
            names = [repr(self.rows[one].names[0]) for one in others]
            yield (
                f"{plural(len(others), 'more argument or parameter')} differ{'s' * (len(others) == 1)}: "
                f"{listed(names, text.MOST)}"
            )

    def _without_partner(self, at: int) -> Iterator[str]:
        # Yield facts about inputs that have no partner in the other recording.
        one, pair = self.comparison, self.comparison.pairs[at]
        for side, own, matched, which in (
            (one.a, pair.a, one.values_a, "first"),
            (one.b, pair.b, one.values_b, "second"),
        ):
            alone = [source for source in sorted(side.graph.sources(own)) if source not in matched]
            if alone:
                yield text.extra([side.entries[source].name for source in alone], which)


def _relative(row: Row) -> float:
    # The relative error of a value; 0 if it was not measured.
    return 0.0 if row.value.measure is None else row.value.measure.relative


def findings_of(comparison: Comparison, blame: Blame) -> tuple[Divergence | None, Divergence | None, list[Divergence]]:
    """Return findings for the first value and the first gradient that are blamed, each None if there is none, and for
    the amplifiers except arguments and parameters whose values differ.
    """
    made = Divergences(comparison, blame)
    first, first_backward = (
        None if at is None else make(at)
        for at, make in ((blame.first, made.forward), (blame.first_backward, made.backward))
    )
    others: list[tuple[Callable[[int], Divergence], Sequence[int]]] = [
        (made.forward, [at for at in blame.amplifiers if not comparison.is_leaf(at)]),
        (made.backward, blame.amplifiers_backward),
    ]
    return first, first_backward, [make(at) for make, places in others for at in places]
