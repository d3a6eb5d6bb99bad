"""Recording a running program block by block: each block ends with an iteration that runs backward.

One block around a whole training run would hold every value that it ever computes. A block is opened in the function
that is running. It ends when ``backward()`` has run in it and some function of the program begins another iteration of
a loop, or when the function that it was opened in returns. The next one begins where the program goes on.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

from backprobe.backends.capabilities import Recompute
from backprobe.backends.discover import load_backend
from backprobe.errors import NoSource
from backprobe.probe.block import PlainBlock
from backprobe.probe.form import home
from backprobe.probe.request import Request
from backprobe.source.bytecode import events
from backprobe.source.locate import is_module
from backprobe.source.user_code import package

LISTENING = "torch"
"""The framework whose programs run backward themselves, so that a block need not choose an output."""
MANY = 1000
"""The most values to keep where no ``backward()`` can reach any of them, as in an evaluation."""
Over = Callable[[PlainBlock, BaseException | None], bool]
"""Called with each block that has ended, and the error that ended it, if any. Returns whether to stop recording."""


class Stopped(SystemExit):
    """Raised in the program when nothing more needs to be recorded."""


class TrainingLoop:
    """Opens and closes the blocks while the program runs in this thread."""

    def __init__(self, probe: Request, file: str, over: Over) -> None:
        self.probe, self.over = probe, over
        self.home = home(file)
        self.block: PlainBlock | None = None
        self.tracer: Any = None  # that of the open block
        self.before: Any = None  # what traced the thread
        self.is_stopped = False
        self.process = os.getpid()

    def start(self) -> None:
        """Record from the next call of a function on, until another tracer replaces this one."""
        self.before = sys.gettrace()
        sys.settrace(self._entered)

    def stop(self) -> None:
        """The program is over."""
        self.close(None)
        sys.settrace(self.before)

    def close(self, error: BaseException | None) -> None:
        """End the open block, with the error that ended it, if any."""
        block, self.block = self.block, None
        if block is not None:
            block.exit(error)
            self.is_stopped = self.over(block, error) or self.is_stopped

    def open(self, frame: FrameType) -> bool:
        """Begin a block where a frame stands, if the framework is loaded and the frame's source can be read."""
        if LISTENING not in sys.modules or not _can_hold(frame.f_code):
            return False
        block = PlainBlock(self.probe, load_backend(LISTENING), frame)
        block.enter()
        self.block, self.tracer = block, sys.gettrace()
        return True

    def begin_iteration(self) -> None:
        """Some loop of the program begins another iteration."""
        if self.block is not None and self._is_over(self.block):
            self.close(None)

    def _is_over(self, block: PlainBlock) -> bool:
        captures, tape = block.trace.versions.captures, block.tape
        is_backward = isinstance(tape, Recompute) and tape.repeated() is not None
        if is_backward or sys.gettrace() != self.tracer:
            return False  # backward itself runs, or a block of the program's own is open
        if block.outputs:
            return True
        return len(captures) > MANY and not any(map(tape.has_history, captures))

    def _entered(self, frame: FrameType, event: str, arg: Any) -> Any:
        if os.getpid() != self.process:  # such as a worker that loads data: it has the tracer, and all that is open
            self._forked()
            return None
        installed = package(frame.f_code.co_filename)
        return _FrameTracer(self) if installed is None or (installed and installed == self.home) else None

    def _forked(self) -> None:
        block, self.block = self.block, None
        if block is not None:
            block.installed.close()
        sys.settrace(None)


class _FrameTracer:
    """The trace function of one frame of the program."""

    def __init__(self, loop: TrainingLoop) -> None:
        self.loop = loop
        self.at = -1
        self.error: BaseException | None = None

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        loop = self.loop
        if event == "line":
            at, self.at, self.error = self.at, frame.f_lasti, None
            if frame.f_lasti < at:
                loop.begin_iteration()
            if loop.is_stopped:
                raise Stopped
            if loop.block is None and loop.open(frame):
                return frame.f_trace
        elif event == "exception":
            self.error = arg[1].with_traceback(arg[2])  # which Python sets only where it is caught
        elif event == "return" and loop.block is not None and loop.block.frame is frame:
            loop.close(self.error)
        return self


@lru_cache(4096)
def _can_hold(code: CodeType) -> bool:
    """Can a block stand in this code? Not in a comprehension, the body of a class, or what has no source."""
    is_function = bool(code.co_flags & inspect.CO_OPTIMIZED) and not code.co_name.startswith("<")
    with suppress(NoSource):
        return (is_function or is_module(code)) and bool(events(code, code, code.co_filename))
    return False
