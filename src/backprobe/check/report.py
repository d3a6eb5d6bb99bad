"""The report of a check: the derivatives that are wrong, and what could not be checked."""

from __future__ import annotations

from dataclasses import dataclass

from backprobe.findings.report import Finding, Report


@dataclass(frozen=True)
class WrongDerivative(Finding):
    """A call whose derivative with respect to one of its inputs is not what differences give.

    ``input`` is that input as the source writes it. ``error`` is the relative error of the gradient: the norm of the
    difference against the norm of what it should be, infinite where it should be zero.
    """

    input: str = ""
    error: float = 0.0


@dataclass(frozen=True)
class CheckReport(Report):
    """The report of ``bp.check``: the wrong derivatives, how many calls were checked, and what was not.

    ``judged`` counts the calls whose derivative was compared with differences, ``error`` is the largest difference
    among those that are right, relative to what was compared. ``unjudged`` are the calls that could not be checked, a
    sentence each; they are among the ``notes``, with what was done so that the others could be.
    """

    judged: int = 0
    error: float = 0.0
    unjudged: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Was something checked, and is every derivative of it right?"""
        return self.judged > 0 and not self.findings
