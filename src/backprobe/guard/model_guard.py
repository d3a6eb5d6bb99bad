"""A guard around a model: handles calls and backward passes that returned NaN or Inf."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from backprobe.backends.guards import Found, GuardedCall, GuardListener, PassedCall
from backprobe.backends.protocol import Backend
from backprobe.errors import NotFinite
from backprobe.findings.report import Finding, Report
from backprobe.guard import text
from backprobe.guard.again import NONFINITE, Anything, Explained, explained
from backprobe.guard.allowed import Allowed
from backprobe.guard.capture import FailureCapture
from backprobe.guard.gradient_guard import GradientGuard
from backprobe.probe.block import ModelBlock
from backprobe.probe.model import ModelRun
from backprobe.probe.request import Request
from backprobe.record.entries import GradStatus, Record
from backprobe.record.graph import Graph
from backprobe.record.nonfinite import Finiteness
from backprobe.record.reasons import Reason


class _Block(Anything, ModelBlock):
    """A recorded block around a call that is repeated."""


class _Run(Anything, ModelRun):
    """A recorded run in which a call is repeated and differentiated."""


class ModelGuard:
    """Receives calls and backward passes of a model, and raises ``NotFinite``."""

    def __init__(self, model: Any, backend: Backend, allowed: Allowed, capture: FailureCapture | None = None) -> None:
        self.model, self.backend, self.allowed, self.capture = model, backend, allowed, capture
        self.records = capture is not None  # with a capture, a recording is made even if the report does not need it

    def listener(self) -> GuardListener:
        gradient = GradientGuard(self.backend, self.allowed, self.capture).gradient
        captures = self.capture is not None
        return GuardListener(
            lambda name: not self.allowed.has(name), self.called, self.differentiated, gradient, captures
        )

    def called(self, call: GuardedCall, bad: Found) -> None:
        """Handle a call that has returned NaN or Inf."""
        report, record = self.known_of_call(call, bad)
        report = report if record is None else _with_writes(report, record)
        if not self.allowed.has_all(report, call.path):
            error = NotFinite(text.in_forward(text.call_of(call), bad), report)
            raise error if self.capture is None else self.capture.written(error, [call], record, False)

    def known_of_call(self, call: GuardedCall, bad: Found) -> tuple[Report, Record | None]:
        """Repeat a call, and return the findings and the recording."""
        known, record = explained(self.backend, call, lambda: _forward(self.backend, call))
        return known if isinstance(known, Report) else text.unexplained_call(call, bad, known), record

    def differentiated(self, calls: Sequence[PassedCall], bad: Found) -> None:
        """Handle a backward pass that left NaN or Inf in gradients."""
        report, record = self.known_of_pass(calls, bad)
        if not self.allowed.has_all(report, calls[0].path):
            error = NotFinite(text.in_backward(calls[0], bad), report)
            raise error if self.capture is None else self.capture.written(error, calls[::-1], record, True)

    def known_of_pass(self, calls: Sequence[PassedCall], bad: Found) -> tuple[Report, Record | None]:
        """Repeat and differentiate the calls of a pass, last call first. Return the first report with a cause, or the
        first report if none has one, and its recording.
        """
        reports = [self._of_pass(call, bad) for call in calls]
        return next((one for one in reports if one[0].of_kind("born", "born_backward")), reports[0])

    def _of_pass(self, call: PassedCall, bad: Found) -> tuple[Report, Record | None]:
        came = call.arrived()
        known, record = self._without(call, came) if came else (None, None)
        if came and not isinstance(known, Report):
            if self.records:
                _, record = explained(self.backend, call, lambda: _backward(self.backend, call))
            return text.came_in(call, came), record
        if known is None:
            known, record = explained(self.backend, call, lambda: _backward(self.backend, call))
        return known if isinstance(known, Report) else text.unexplained_pass(call, bad, known), record

    def _without(self, call: PassedCall, came: Found) -> Explained:
        # Repeat the call without the bad gradients from outside, to see if NaN or Inf arises inside the call itself.
        if len(came) == len(call.gradients):
            return Explained(Reason("repeat_finite"))
        call.without = came
        try:
            return explained(self.backend, call, lambda: _backward(self.backend, call))
        finally:
            call.without = ()


def _with_writes(report: Report, record: Record) -> Report:
    # The report with advice for parameters that held NaN or Inf when the call began: a guard sees calls and gradients,
    # and not what writes to parameters.
    parameters = {record.entries[at].name for at in Graph.of(record).parameters}
    findings = [
        replace(one, remedy=text.WRITTEN.format(name=repr(one.name)))
        if isinstance(one, Finding) and one.kind == "came_in" and one.name in parameters and not one.remedy
        else one
        for one in report.findings
    ]
    return replace(report, findings=tuple(findings))


def _forward(backend: Backend, call: GuardedCall) -> Record:
    # Repeat the call, and record its values: inside a recorded block, if the framework records calls that are not
    # differentiated.
    if call.output is not None:
        return _without_gradients(call, backend)
    block = _Block(Request(call.module, call.select, options=NONFINITE), backend, sys._getframe())
    recording = block.enter()
    try:
        call.again()
    except BaseException as error:
        block.exit(error)
        raise
    block.exit(None)
    return recording.record


def _without_gradients(call: GuardedCall, backend: Backend) -> Record:
    # Repeat the call in a framework that records only differentiated calls, and keep only the values.
    assert call.output is not None
    of, cotangent = call.output
    request = Request(call.module, call.select, of=of, cotangent=cotangent, options=NONFINITE)
    args, kwargs = call.arguments()
    record = _Run(request, backend).record(args, kwargs).record
    entries = [
        replace(
            entry,
            held_grad=None,
            finiteness=None if entry.finiteness is None else Finiteness(entry.finiteness.value, None),
            status=GradStatus.BACKWARD_NOT_RUN if entry.status is GradStatus.OK else entry.status,
        )
        for entry in record.entries
    ]
    return replace(record, entries=tuple(entries))


def _backward(backend: Backend, call: PassedCall) -> Record:
    # Repeat the call, and differentiate it with the gradients that reached its outputs. No ``.grad`` is changed.
    request = Request(call.module, call.select, of=call.seeded, options=NONFINITE)
    args, kwargs = call.arguments()
    return _Run(request, backend).record(args, kwargs).record
