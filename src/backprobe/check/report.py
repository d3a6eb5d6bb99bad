"""The report of a check: the derivatives that are wrong, and what could not be checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from backprobe.findings.report import Finding, Report, plain


@dataclass(frozen=True, repr=False)
class WrongDerivative(Finding):
    """A call whose derivative with respect to one of its inputs disagrees with finite differences.

    ``input`` is that input as the source writes it. ``error`` is the relative error of the gradient: the norm of the
    difference divided by the norm of the right gradient, infinite if that is zero.
    """

    input: str = ""
    error: float = 0.0

    level: ClassVar[str] = "error"


@dataclass(frozen=True, repr=False)
class CheckReport(Report):
    """The report of ``bp.check``: the wrong derivatives, how many calls were checked, and what was not.

    ``judged`` counts the calls whose derivative was compared with differences. ``error`` is the largest relative error
    among the right ones, along a random direction. ``unjudged`` says, in one sentence each, what could not be checked
    fully; these sentences are also in ``notes``, which say as well what was done so that other calls could be checked.
    ``complete`` is True if every call was judged. Calls are compared one by one; the program as a whole is not.
    """

    judged: int = 0
    error: float = 0.0
    unjudged: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data, with ``judged``, ``error`` and ``unjudged`` beside what every report has."""
        own = {"judged": self.judged, "error": plain(self.error), "unjudged": list(self.unjudged)}
        return {**super().to_dict(), **own}
