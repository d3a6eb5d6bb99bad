"""The report of two trainings: the first step and name at which they differ."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backprobe.findings.report import Finding, Report
from backprobe.record.brief import written

if TYPE_CHECKING:  # importing backprobe must not import NumPy
    from backprobe.diff.trainings import ComparedRows


@dataclass(frozen=True, repr=False)
class RunDivergence(Finding):
    """The first step and name at which two runs differ.

    ``name`` is the name in the first run and ``other`` in the second; ``field`` is the statistic that differs, as an
    argument of ``run.series``. ``numbers`` are the numbers of both runs. ``error`` is their difference relative to the
    magnitude in the first run, infinite if counts differ. ``excess`` is the error in units of the floor.
    """

    step: int = 0
    other: str = ""
    field: str = ""
    numbers: tuple[float, float] = (0.0, 0.0)
    error: float = math.inf
    excess: float = math.inf

    def __repr__(self) -> str:
        return f"<RunDivergence at step {self.step}: {self.headline}>"


@dataclass(frozen=True, repr=False)
class RunDiffReport(Report):
    """The report of ``bp.diff`` of two runs.

    ``first`` is the first difference: at the first step with one, and there at the name that is computed first. It is
    None if the runs agree. ``rows`` has every compared pair of rows, with the first step at which it differs.
    ``only_a`` and ``only_b`` are names without a partner. ``complete`` is True if every name has a partner and was
    compared in every step.
    """

    first: RunDivergence | None = None
    rows: Sequence[ComparedRows] = field(default=(), repr=False)
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()
    folders: tuple[Path, ...] = field(default=(), repr=False, compare=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write both runs as a page: their losses together, and all names of the second relative to the first.

        It is one self-contained ``.html`` file. Raises BadOption for another ending or if the file cannot be written,
        and BadRun for a run that cannot be read.
        """
        from backprobe.view import save

        save([*self.folders], path, f"report.save({written(path)})", {"run": 1, "with": 0, "mode": "ratio"})

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data; ``rows`` are all pairs, each with the first step at which it differs, or None."""
        rows = [
            {
                "name": row.pair.name,
                "other": row.pair.other,
                "kind": row.pair.kind,
                "steps": row.steps,
                "parts_at": None if row.parting is None else row.parting.step,
            }
            for row in self.rows
        ]
        first = None if self.first is None else self.first.to_dict()
        return {
            **super().to_dict(),
            "first": first,
            "rows": rows,
            "only_a": list(self.only_a),
            "only_b": list(self.only_b),
        }
