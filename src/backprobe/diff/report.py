"""The report of a comparison: the first difference forward and backward, and the result for every pair."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from backprobe.diff.measure import Measure
from backprobe.diff.pairs import JudgedNumbers, Row
from backprobe.diff.table import html_table, text_table
from backprobe.findings.phrasing import plural
from backprobe.findings.report import Finding, Report, in_lines, plain
from backprobe.findings.wrapping import wrapped
from backprobe.markup import element, numbered, shown
from backprobe.record.brief import written
from backprobe.record.entries import Record
from backprobe.show.drawable import Drawable
from backprobe.show.number_table import WIDTH, columns
from backprobe.view.shown import Shown

MOST = 4  # number of amplifiers that are printed
AROUND = 3  # rows of the table that are printed on each side of a difference


@dataclass(frozen=True, repr=False)
class Divergence(Finding):
    """A value or gradient that differs first, or that differs although everything it is computed from agrees.

    ``name`` is its printed name in the first recording, and ``other`` in the second. ``source`` is the line of the
    second recording that computes the value; for a gradient, usually the line from which it flows back. ``direction``
    is ``"forward"`` for a value and ``"backward"`` for a gradient. ``kind`` is ``argument``, ``parameter``, ``value``,
    ``gradient``, ``shape``, ``dtype`` or ``status``. ``error`` is the relative error in the L2 norm; it is infinite if
    only one is finite, or if there is no such error, as between different shapes. ``excess`` is the error in units of
    the floor, and ``floor`` says how the floor was determined. ``matched`` says how the two entries were matched.
    ``measure`` has more numbers, or is None.
    """

    other: str = ""
    direction: str = "forward"
    error: float = math.inf
    excess: float = math.inf
    floor: str = ""
    matched: str = ""
    measure: Measure | None = None

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain data; ``next`` is its remedy."""
        return {**super().to_dict(), "next": self.remedy}


@dataclass(frozen=True, repr=False)
class DiffReport(Report):
    """The report of ``bp.diff``.

    ``first`` is the first value that differs, in the order of execution, with arguments and parameters first.
    ``first_backward`` is the first gradient that differs, in the order of backward. If values differ, gradients
    computed from these differ too. ``first_backward`` is then the first gradient that differs although all values and
    gradients that it is computed from agree. ``first`` and ``first_backward`` are None if there is no such pair.
    ``amplifiers`` are further values and gradients that differ although everything they are computed from agrees.
    ``findings`` has all of these.

    ``rows`` are all compared pairs; ``only_a`` and ``only_b`` are printed names of entries without a partner.
    ``complete`` is True if every entry has a partner, and the values and gradients of all pairs were compared.
    """

    first: Divergence | None = None
    first_backward: Divergence | None = None
    amplifiers: tuple[Divergence, ...] = ()
    rows: tuple[Row, ...] = field(default=(), repr=False)
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()
    record: Record | None = field(default=None, repr=False, compare=False)
    backend: str = field(default="", repr=False, compare=False)

    @property
    def drawable(self) -> Drawable | None:
        """The data that ``bp.draw`` draws: the second recording, with the result for each value."""
        from backprobe.diff.drawing import drawable  # imported late, because it imports NumPy

        blamed = [(one.name, one.direction) for one in self.findings if isinstance(one, Divergence)]
        return None if self.record is None else drawable(self.record, self.rows, self.heading, blamed, self.backend)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report as a page: the circuit, shaded by error relative to the floor, with both values of a node.

        It is one self-contained ``.html`` file. Raises BadOption for another ending.
        """
        from backprobe.view import save_page

        save_page(self._viewed(), path, f"report.save({written(path)})")

    def _viewed(self) -> Shown:
        # The content that bp.view shows.
        from backprobe.show.shaded import ShadedCaptions  # imported late, because it imports NumPy
        from backprobe.view.circuit import circuit

        drawable = self.drawable
        assert drawable is not None  # always set in a report that bp.diff made, because it has its record
        return circuit(ShadedCaptions(drawable))

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data; ``first`` and ``first_backward`` are indices into ``findings``, ``pairs`` are the
        rows.
        """
        return {
            **super().to_dict(),
            "first": None if self.first is None else self.findings.index(self.first),
            "first_backward": None if self.first_backward is None else self.findings.index(self.first_backward),
            "pairs": [plain(_pair(row)) for row in self.rows],
            "only_a": list(self.only_a),
            "only_b": list(self.only_b),
        }

    def text(self, width: int = WIDTH) -> str:
        """The report as text for ``width`` columns."""
        findings, left = self._shown
        words = in_lines(self.heading, findings, [*left, *self.notes])
        table = text_table(self._surroundings, width)
        return "\n".join([wrapped(words, width), *([""] if table else []), *table])

    @property
    def _shown(self) -> tuple[Sequence[Finding], Sequence[str]]:
        # The findings to print, and a line with the number of others.
        most = len(self.findings) - len(self.amplifiers) + MOST
        left = len(self.findings) - most
        return self.findings[:most], [f"{plural(left, 'more')} in report.amplifiers"] if left > 0 else []

    @property
    def _surroundings(self) -> Sequence[Row | int]:
        # The rows around the first differences, with the number of omitted rows between them.
        names = {one.name for one in (self.first, self.first_backward) if one is not None}
        wanted: set[int] = set()
        for at, row in enumerate(self.rows):
            if row.names[0] in names:
                wanted |= set(range(max(at - AROUND, 0), min(at + AROUND + 1, len(self.rows))))
        return list(_with_gaps(self.rows, sorted(wanted))) if wanted else []

    def __str__(self) -> str:
        return self.text(columns())

    def _repr_html_(self) -> str:
        findings, left = self._shown
        notes = [element("div", f"note: {note}", class_="note") for note in (*left, *self.notes)]
        rows = [html_table(self._surroundings)] if self._surroundings else []
        found = numbered([each._html() for each in findings])
        return shown(element("div", self.heading, class_="heading"), found, *rows, *notes)


def _with_gaps(rows: Sequence[Row], wanted: Sequence[int]) -> Iterator[Row | int]:
    # Yield the wanted rows, and the number of omitted rows between them. A single omitted row is shown, because its
    # number would take a line as well.
    last = -1
    for at in (*wanted, len(rows)):
        left = at - last - 1
        if left == 1:
            yield rows[at - 1]
        elif left:
            yield left
        if at < len(rows):
            yield rows[at]
        last = at


def _pair(row: Row) -> dict[str, Any]:
    return {
        "name": row.names[0],
        "other": row.names[1],
        "matched": row.match.how,
        "value": _judged(row.value),
        "gradient": _judged(row.gradient),
    }


def _judged(judged: JudgedNumbers) -> dict[str, Any]:
    return {
        "differs": judged.kind,
        "excess": judged.excess,
        "why": judged.why,
        "floor": None if judged.floor is None else {"rms": judged.floor.rms, "largest": judged.floor.largest},
        "measure": judged.measure,
    }
