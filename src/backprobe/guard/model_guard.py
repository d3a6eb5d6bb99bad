"""A guard around a model: what it makes of a call, or of its backward, that brought NaN or Inf."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from backprobe.backends.guards import Found, GuardedCall, GuardListener, PassedCall
from backprobe.backends.protocol import Backend
from backprobe.errors import NotFinite
from backprobe.findings.report import Report
from backprobe.guard import text
from backprobe.guard.again import NONFINITE, Anything, explained
from backprobe.guard.allowed import Allowed
from backprobe.guard.gradient_guard import GradientGuard
from backprobe.probe.block import ModelBlock
from backprobe.probe.model import ModelRun
from backprobe.probe.request import Request
from backprobe.record.entries import GradStatus, Record
from backprobe.record.nonfinite import Finiteness


class _Block(Anything, ModelBlock):
    """A block around a call that is made again."""


class _Run(Anything, ModelRun):
    """A call that is made again, and differentiated."""


class ModelGuard:
    """What hears of calls and passes, and raises ``NotFinite``."""

    def __init__(self, model: Any, backend: Backend, allowed: Allowed) -> None:
        self.model, self.backend, self.allowed = model, backend, allowed

    def listener(self) -> GuardListener:
        gradient = GradientGuard(self.backend, self.allowed).gradient
        return GuardListener(lambda name: not self.allowed.has(name), self.called, self.differentiated, gradient)

    def called(self, call: GuardedCall, bad: Found) -> None:
        """A call has returned NaN or Inf."""
        asked = text.call_of(call)
        known = explained(call, lambda: _forward(self.backend, call))
        report = known if isinstance(known, Report) else text.unexplained_call(call, bad, known)
        if not self.allowed.has_all(report, call.path):
            raise NotFinite(text.in_forward(asked, bad), report)

    def differentiated(self, calls: Sequence[PassedCall], bad: Found) -> None:
        """A pass has left NaN or Inf in gradients. What comes to an output of a call was not made by that call."""
        reports = [self._of_pass(call, bad) for call in calls]
        report = next((one for one in reports if one.of_kind("born", "born_backward")), reports[0])
        if not self.allowed.has_all(report, calls[0].path):
            raise NotFinite(text.in_backward(calls[0], bad), report)

    def _of_pass(self, call: PassedCall, bad: Found) -> Report:
        came = call.arrived()
        if came:
            return text.came_in(call, came)
        known = explained(call, lambda: _backward(self.backend, call))
        return known if isinstance(known, Report) else text.unexplained_pass(call, bad, known)


def _forward(backend: Backend, call: GuardedCall) -> Record:
    # The call again, in a block: nothing is differentiated.
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
    # The call again where only a differentiated call is recorded; of that nothing but the values is read.
    assert call.output is not None
    of, cotangent = call.output
    request = Request(call.module, call.select, of=of, cotangent=cotangent, options=NONFINITE)
    args, kwargs = call.arguments()
    record = _Run(request, backend).record(args, kwargs).record
    entries = [
        replace(
            entry, held_grad=None,
            finiteness=None if entry.finiteness is None else Finiteness(entry.finiteness.value, None),
            status=GradStatus.BACKWARD_NOT_RUN if entry.status is GradStatus.OK else entry.status,
        )
        for entry in record.entries
    ]  # fmt: skip
    return replace(record, entries=tuple(entries))


def _backward(backend: Backend, call: PassedCall) -> Record:
    # The call again, differentiated with the gradients that came to it: no ``.grad`` is touched.
    request = Request(call.module, call.select, of=call.seeded, options=NONFINITE)
    args, kwargs = call.arguments()
    return _Run(request, backend).record(args, kwargs).record
