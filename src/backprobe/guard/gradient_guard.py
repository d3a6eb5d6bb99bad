"""A guard of functional gradients: raises if a gradient, or the value of its function, is not finite."""

from __future__ import annotations

from backprobe.backends.guards import Found, GuardedGradient, GuardListener
from backprobe.backends.protocol import Backend
from backprobe.errors import NotFinite
from backprobe.findings.report import Report
from backprobe.guard import text
from backprobe.guard.again import NONFINITE, Anything, explained
from backprobe.guard.allowed import Allowed
from backprobe.guard.capture import FailureCapture
from backprobe.probe.function import FunctionRun
from backprobe.probe.request import Request
from backprobe.record.entries import Record


class _Run(Anything, FunctionRun):
    """A run that computes a failed gradient again."""


class GradientGuard:
    """Receives gradients, and raises ``NotFinite``."""

    def __init__(self, backend: Backend, allowed: Allowed, capture: FailureCapture | None = None) -> None:
        self.backend, self.allowed, self.capture = backend, allowed, capture

    def listener(self) -> GuardListener:
        captures = self.capture is not None
        return GuardListener(lambda name: not self.allowed.has(name), gradient=self.gradient, captures=captures)

    def gradient(self, asked: GuardedGradient, bad: Found, is_value: bool) -> None:
        """Handle a gradient, or the value of its function, that is not finite."""
        report, record = self.known(asked, bad, is_value)
        if not self.allowed.has_all(report, ""):
            error = NotFinite(text.in_gradient(asked, bad, is_value), report)
            raise error if self.capture is None else self.capture.written(error, [asked], record, not is_value)

    def known(self, asked: GuardedGradient, bad: Found, is_value: bool) -> tuple[Report, Record | None]:
        """Compute the gradient again, and return the findings and the recording."""
        known, record = explained(self.backend, asked, lambda: _recorded(self.backend, asked))
        if isinstance(known, Report):
            return known, record
        return text.unexplained_gradient(asked, bad, is_value, known), record


def _recorded(backend: Backend, asked: GuardedGradient) -> Record:
    request = Request(asked.function, of=asked.of, wrt=asked.wrt, options=NONFINITE)
    args, kwargs = asked.arguments()
    return _Run(request, backend).record(args, kwargs).record
