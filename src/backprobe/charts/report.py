"""The result of ``run.report()``: text for a terminal, and the same as plain data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from backprobe.findings.report import Report
from backprobe.markup import element, shown


@dataclass(frozen=True, repr=False, eq=False)
class RunReport(Report):
    """A printable report of a run, or of one name or one step of it. Its findings are the alerts; a step has none."""

    about: str = ""
    text: Callable[[], str] = field(default=str)
    numbers: Callable[[], dict[str, Any]] = field(default=dict)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data, with the alerts as ``alerts``. In series, NaN and Inf become None."""
        return {**super().to_dict(), **self.numbers()}

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<backprobe.RunReport of {self.about}>"

    def _repr_html_(self) -> str:
        return shown(element("pre", str(self)))
