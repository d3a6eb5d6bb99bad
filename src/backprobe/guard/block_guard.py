"""A guard around a block: it records the variables from one ``backward()`` to the next, and checks them after each.

The block is split into parts in the same way as a recorded script: a part ends with an iteration that called
``backward()``.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import FrameType, MappingProxyType, TracebackType
from typing import Any

from backprobe.backends.capabilities import Differentiator
from backprobe.backends.facts import Options
from backprobe.backends.guards import BlockGuards, Found
from backprobe.backends.protocol import Backend
from backprobe.backends.user_lines import users_frames
from backprobe.errors import NotFinite
from backprobe.findings.report import Report
from backprobe.guard import text
from backprobe.guard.allowed import Allowed, beginnings
from backprobe.probe.request import Request
from backprobe.probe.training_loop import LoopPart, TrainingLoop
from backprobe.record.containers import leaves
from backprobe.record.entries import GradStatus, Record
from backprobe.record.reasons import Reason
from backprobe.source.frames import variables_in
from backprobe.tracing.finiteness import judged
from backprobe.tracing.transcribe import FinishedRun

FEW = 64


class GuardedBlock(LoopPart):
    """One part of the block. Its numbers are read only if a backward pass left NaN or Inf, or if no pass ran."""

    is_spent = False  # True after the numbers were read
    # the number of values recorded before the loss was scaled, and a function that says whether the scaler handles
    # overflow
    scaled: tuple[int, Callable[[], bool]] | None = None
    has_passed = False  # True if a backward pass had begun when the part ended
    unseen: Mapping[str, None] = MappingProxyType({})  # names of functions that ran compiled

    def __init__(
        self, request: Request, backend: Backend, frame: FrameType, guards: BlockGuards, allowed: Allowed
    ) -> None:
        super().__init__(request, backend, frame)
        self.guards, self.allowed = guards, allowed
        guards.hear(self.tape, self._left)

    def judged(self, run: FinishedRun) -> FinishedRun | Record:
        return run

    def closing(self) -> None:
        self.has_passed = self.is_spent or self.backward_passes > 0
        self.unseen = dict.fromkeys(name for name in self.tape.unseen() if " " not in name)

    def differentiate(self, differentiator: Differentiator) -> None:
        """Differentiate nothing: this guard only looks at gradients that the program itself computes."""
        differentiator.give_up(Reason("backward_not_called"))

    def _began(self, tensors: Sequence[Any], beside: bool = False) -> list[Any]:
        if not beside:
            self.guards.after_backward(tensors, self._left)
        return super()._began(tensors, beside)

    def _left(self, bad: Found, is_begun: bool) -> None:
        # Called when a backward pass left NaN or Inf in gradients, or began with them.
        self._look(text.after_backward(bad, self.guards.backward, is_begun))

    def look(self) -> None:
        """Check a part that ended without any backward pass."""
        self._look("")

    def _look(self, headline: str) -> None:
        from backprobe.explain.nonfinite import explain_nonfinite  # imported late, because it imports NumPy

        if headline and isinstance(self.tape, Differentiator):
            super().differentiate(self.tape)
        self.is_spent = True
        record = self.recording.record
        held = self.guards.held() if headline and self.backward_passes == 1 else ()
        report = explain_nonfinite(replace(judged(record, self.backend.arrays), updates=(*record.updates, *held)))
        if not headline and self._is_of_scaled(report, record):
            return
        if not report.ok and not self.allowed.has_all(report, ""):
            raise NotFinite(headline or text.in_block(report), report)

    def _is_of_scaled(self, report: Report, record: Record) -> bool:
        # Did NaN or Inf begin in values that were recorded after the program had scaled the loss, and does the scaler
        # handle such an overflow? Used for gradients that are computed without ``backward()``.
        count, handles = self.scaled or (0, bool)
        before = {
            one.name for one in [one for one in record.entries if one.status is not GradStatus.NOT_TENSOR][:count]
        }
        return handles() and all(one.name not in before for one in beginnings(report))


class GuardedLoop(TrainingLoop):
    """Splits a block into parts, one after the other."""

    look_at = FEW  # number of captures after which it is checked again whether the program still needs them

    def is_over(self, block: LoopPart) -> bool:
        assert isinstance(block, GuardedBlock)
        if block.is_spent or super().is_over(block):
            self.look_at = FEW
            return True
        count = len(block.trace.versions.captures)
        if count < self.look_at or block.passes:
            return False
        self.look_at = FEW if self._is_idle(block) else 2 * count
        return self.look_at == FEW

    def _is_idle(self, block: GuardedBlock) -> bool:
        # Has the program released most of the recorded values? Then no backward pass will follow, for example in an
        # evaluation.
        variables = [value for frame in users_frames(sys._getframe(1)) for value in variables_in(frame).values()]
        captures = block.trace.versions.captures
        held = [leaf for value in variables for _, leaf in leaves(value)]
        return 2 * block.guards.needed(block.tape, captures, held) < len(captures)


class BlockGuard:
    """A guard around the block that a frame is running."""

    def __init__(self, backend: Backend, guards: BlockGuards, allowed: Allowed, frame: FrameType) -> None:
        self.guards, self.allowed, self.frame = guards, allowed, frame
        request = Request(None, options=Options(nonfinite=True, updates=False))
        self.loop = GuardedLoop(request, frame.f_code.co_filename, self._over, self._block, lambda: [backend.name])
        self.entered = ExitStack()
        self.unseen: dict[str, None] = {}  # names of functions that ran compiled
        self.has_passed = False

    def __enter__(self) -> None:
        self.entered.enter_context(self.guards.scaling(self._scaled))
        self.loop.start(self.frame)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self.entered:
            self.loop.stop(error)
        if error is None and self.unseen and not self.has_passed:
            warnings.warn(text.unseen(self.unseen, self.guards.see_compiled), UserWarning, stacklevel=3)

    def _scaled(self, handles: Callable[[], bool]) -> None:
        block = self.loop.block
        if isinstance(block, GuardedBlock) and block.scaled is None:
            block.scaled = len(block.trace.versions.captures), handles

    def _block(self, request: Request, backend: Backend, frame: FrameType) -> LoopPart:
        return GuardedBlock(request, backend, frame, self.guards, self.allowed)

    def _over(self, block: LoopPart, error: BaseException | None) -> bool:
        # Called when a part ends. If a pass ran in the part, its numbers were checked when the pass ended.
        assert isinstance(block, GuardedBlock)
        self.unseen |= block.unseen
        self.has_passed |= block.has_passed
        if error is None and not block.has_passed:
            block.look()
        return False
