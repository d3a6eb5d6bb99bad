"""A notebook cell under a block: the cell runs unchanged. If it takes no gradient itself, its output is differentiated
at the end.
"""

from __future__ import annotations

import sys
from functools import partial
from types import CodeType, FrameType
from typing import Any

from backprobe.backends.capabilities import AtEnd
from backprobe.backends.facts import Root
from backprobe.backends.protocol import Backend
from backprobe.probe.block import PlainBlock
from backprobe.probe.cell_output import OfCell
from backprobe.probe.cell_scope import CellScope, holds_tensor, tensors_read
from backprobe.probe.request import Request
from backprobe.recording import Recording
from backprobe.source.bytecode import events
from backprobe.source.cell import Cell, refusing_depth
from backprobe.source.locate import is_module
from backprobe.source.sites import Site
from backprobe.source.tracer import WatchedFrame
from backprobe.tracing.frame_observer import RAISING, FrameObserver, ObservedFrame


def record_cell(probe: Request, backend: Backend) -> Recording:
    """Run a cell once. If the cell takes no gradient itself, its output is differentiated."""
    running = _Running(probe, backend)
    try:
        return running.record()
    finally:
        running.block = None


class _Running:
    # Runs a cell once. The block begins when the first line of the cell's code runs.
    def __init__(self, probe: Request, backend: Backend) -> None:
        self.probe, self.backend = probe, backend
        self.cell: Cell = probe.target
        self.block: CellBlock | None = None
        self.before: Any = None  # the thread's earlier trace function
        self.code: CodeType | None = None
        self.site: Site | None = None

    def record(self) -> Recording:
        with refusing_depth(self.cell.file):
            self.code, end, self.site = self.cell.parts()
            for code in filter(None, (self.code, end)):
                events(code, code, self.cell.file)  # refuses unreadable code before anything runs
        self.before = sys.gettrace()
        sys.settrace(self._entered)
        try:
            exec(self.code, self.cell.globals, self.cell.locals)
            value = None if end is None else eval(end, self.cell.globals, self.cell.locals)
        except BaseException as error:
            if self.block is not None:
                self.block.exit(error)
            raise
        finally:
            if sys.gettrace() == self._entered:
                sys.settrace(self.before)
        assert self.block is not None
        self.block.result = value
        self.block.exit(None)
        return self.block.answer()

    def _entered(self, frame: FrameType, event: str, arg: Any) -> Any:
        # Called when a frame is entered: the block begins at the frame of the cell's code.
        following = None if self.before is None else self.before(frame, event, arg)
        if frame.f_code is not self.code:
            return following
        sys.settrace(self.before)
        frame.f_trace = following
        block = CellBlock(self.probe, self.backend, frame, self.site)
        block.enter()
        self.block = block
        return frame.f_trace


class CellFrame(ObservedFrame):
    """One of the two frames of a cell: the statements, and the last expression. Both report to one scope.

    The value of the last expression gets a name if it holds a tensor.
    """

    is_end = False

    def left(self, frame: FrameType, value: Any) -> bool:
        has_raised = self.pending is RAISING
        super().left(frame, value)
        if self.is_end and not has_raised:
            bind = self.scope.bind if holds_tensor(value, self.observer.tape) else self.scope.done
            bind(len(self.scope.sites) - 1, value)
        return True

    def _leave(self) -> None:
        """Do nothing, because the block is left only at the end of the cell."""


class CellObserver(FrameObserver):
    """Observes both frames of a cell."""

    def _entered(self, frame: FrameType) -> WatchedFrame | None:
        code, root = frame.f_code, self.trace.root
        if not (isinstance(root, CellScope) and is_module(code) and code.co_filename == root.cell.file):
            return super()._entered(frame)
        watched = CellFrame(self, root, events(code, code, code.co_filename), code, root.unread)
        watched.is_end = True
        return watched


class CellBlock(OfCell, PlainBlock):
    """The block around a cell."""

    observer_type = CellObserver
    has_own_options = True
    has_raised = False
    result: Any = None

    def __init__(self, probe: Request, backend: Backend, frame: FrameType, end: Site | None) -> None:
        super().__init__(probe, backend, frame)
        self.end = end  # the site of the last expression

    def read(self) -> dict[str, Any]:
        return tensors_read(self.cell, self.tape)

    def begin(self, observer: FrameObserver, frame: FrameType, read: dict[str, Any]) -> None:
        scope = self.trace.use_root(partial(CellScope, self.cell, read))
        self.bound = scope.bound
        observer.start(frame, read, CellFrame, () if self.end is None else (self.end,))

    def exit(self, error: BaseException | None) -> None:
        self.has_raised = error is not None
        super().exit(error)

    def closing(self) -> None:
        self.trace.root.exit()
        self.has_run = not self.has_raised
        if isinstance(self.tape, AtEnd) and not (self.outputs or self.has_raised):
            self.noting(self._run_backward_at_end)

    def _run_backward_at_end(self) -> None:
        # Differentiate the output of the cell. Called if the cell raised no error and took no gradient itself.
        assert isinstance(self.tape, AtEnd)
        self.doing = "choosing the output of"
        output = self.output(self.result, self.probe.asked[0])
        number = self.hold(output)
        self.outputs.append(number)
        self.doing = "differentiating"
        captures = self.trace.captures(self.trace.schema_so_far([number]))
        self.tape.run_backward(Root(self.trace.versions.tensors[number], output.cotangent), captures)

    def answer(self) -> Recording:
        """Return the recording. If the cell took gradients of several outputs, and one of them is requested by name,
        this is the recording of that output.
        """
        made = Recording(self.recording.record, self.result)
        asked = self.probe.of
        return made.of(asked) if isinstance(asked, str) and asked in made.output_keys else made
