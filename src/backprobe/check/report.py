"""The report of a check: the derivatives that are wrong, and the calls that could not be checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from backprobe.findings.report import Finding, Report, plain


@dataclass(frozen=True, repr=False)
class WrongDerivative(Finding):
    """A call whose derivative with respect to one of its inputs disagrees with finite differences.

    ``input`` is the source text of that input. ``error`` is the relative error of the gradient: the norm of the
    difference divided by the norm of the right gradient. It is infinite if the right gradient is zero.
    """

    input: str = ""
    error: float = 0.0

    level: ClassVar[str] = "error"


@dataclass(frozen=True, repr=False)
class CheckReport(Report):
    """The report of ``bp.check``: the wrong derivatives, how many calls were checked, and which were not.

    ``judged`` counts the calls whose derivative was compared with differences. ``error`` is the largest relative error
    among the right derivatives, along a random direction. ``unjudged`` has a sentence for each place and reason where
    calls could not be checked fully, or functions not be followed. ``notes`` has the same sentences, and others on what
    the check had to do for some calls. ``complete`` is True if a call was judged and ``unjudged`` is empty; calls that
    were skipped as asked do not count. Calls are compared one by one; the program as a whole is not.
    """

    judged: int = 0
    error: float = 0.0
    unjudged: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data: the fields of every report, and ``judged``, ``error`` and ``unjudged``."""
        own = {"judged": self.judged, "error": plain(self.error), "unjudged": list(self.unjudged)}
        return {**super().to_dict(), **own}
