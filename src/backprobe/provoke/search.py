"""Searches a row at which one operand reaches the end of its range and the program breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy

from backprobe.provoke.program import Look, TriedProgram, Unreachable
from backprobe.provoke.risks import Risk
from backprobe.provoke.steps import corner, exact, far, newton, starts

Array = Any
PATIENCE = 4  # the search ends after this number of successive starts without progress
BETTER = 0.99  # a new margin counts as progress if it is below this multiple of the old one
MUCH = 0.1
BETWEEN = 6  # the number of bisection steps
NEARLY = 1e-3  # an operand is nearly at its end below this multiple of the margin in the example


@dataclass
class SearchOutcome:
    """The result of a search: two runs, and the number of steps.

    ``found`` is the run that broke the operation. ``nearest`` is the run whose operand came nearest to the end of its
    range.
    """

    risk: Risk
    nearest: Look | None = None
    found: Look | None = None
    steps: int = 0
    why_not: str = ""
    tried: list[Array] = field(default_factory=list)
    has_moved: bool = False  # did the operand change, or did it have a nonzero slope?


class Search:
    """One search with a limited number of steps. Each step runs the program on one row.

    ``is_to_blame`` decides whether a break of the program was caused by the searched operation.
    """

    def __init__(
        self, program: TriedProgram, risk: Risk, steps: int, random: Any, is_to_blame: Callable[[Risk, Look], bool]
    ) -> None:
        self.program, self.left, self.random, self.is_to_blame = program, steps, random, is_to_blame
        self.inputs = program.inputs
        self.outcome = SearchOutcome(risk)

    def run(self) -> SearchOutcome:
        """Descend from the example, and then from other starts, until the operation breaks or several starts make no
        progress.
        """
        inputs = self.inputs
        spans = [one.span for one in inputs.variables]
        in_vain = 0
        for row in starts(inputs.example, inputs.low, inputs.high, spans, self.random):
            before = self.outcome.nearest
            at = self._look(row)
            while at is not None and not self._is_over:
                at = self._next(at)
            now = self.outcome.nearest
            is_nearer = before is None or (now is not None and _is_nearer(now, before))
            in_vain = 0 if is_nearer else in_vain + 1
            if self._is_over or in_vain == PATIENCE:
                break
        return self.outcome

    @property
    def _is_over(self) -> bool:
        return self.outcome.found is not None or self.left <= 0

    def _next(self, at: Look) -> Look | None:
        # Return the best of the next runs, if its operand is nearer to the end of its range; otherwise None.
        best = at
        for row in self._proposed(at):
            if self._is_over:
                return None
            new = self._look(row)
            if new is not None and new.is_there and not new.broken:
                self._between(at, new)
            if new is not None and new.margin < best.margin:
                best = new
                if new.margin < MUCH * at.margin:
                    break
        return best if _is_nearer(best, at) else None

    def _between(self, before: Look, there: Look) -> None:
        # Bisect to the row at which the operand just reaches its end. Beyond this row the program may not read the
        # operand any more, for example because of a clip.
        for _ in range(BETWEEN):
            if self._is_over:
                return
            new = self._look((before.row + there.row) / 2)
            if new is None:
                return
            before, there = (before, new) if new.is_there else (new, there)

    def _proposed(self, at: Look) -> Iterator[Array]:
        inputs, goal = self.inputs, self.outcome.risk.goal
        if at.is_there or not at.slope.any():
            return
        around = at.row, at.margin, at.slope, inputs.low, inputs.high
        yield newton(*around, 1.0) if goal.side == "zero" else newton(*around)
        is_nearly = at.margin < NEARLY * self._scale() and not goal.limit
        if goal.side == "zero" and is_nearly:
            yield from exact(*around)
        if goal.side != "above":
            yield far(*around)
        if goal.side != "zero" and is_nearly:
            yield from exact(*around)
        yield corner(at.row, at.slope, inputs.low, inputs.high)
        yield newton(*around, 0.25)

    def _scale(self) -> float:
        # The distance of the operand from the end of its range, in the run of the example.
        risk = self.outcome.risk
        first = float(risk.goal.margin(numpy.asarray(risk.example)))
        return first if numpy.isfinite(first) and first > 0 else 1.0

    def _look(self, row: Array) -> Look | None:
        known, row = self.outcome, self.inputs.rounded(row)
        if any(numpy.array_equal(row, one) for one in known.tried):
            return None
        known.tried.append(row)
        self.left -= 1
        known.steps += 1
        try:
            look = self.program.look(known.risk, row)
        except Unreachable:
            if known.nearest is None:
                raise
            return None
        if look is None:
            return None
        known.has_moved |= bool(look.slope.any()) or look.number != known.risk.example
        if known.nearest is None or look.margin < known.nearest.margin:
            known.nearest = look
        if look.broken and self.is_to_blame(known.risk, look):
            known.found = look
        return look


def _is_nearer(new: Look, old: Look) -> bool:
    # Is the new margin so much smaller that the run counts as progress? If the old run was already beyond the end,
    # where margins are negative, no run counts.
    return new.margin < BETTER * old.margin and not old.is_there
