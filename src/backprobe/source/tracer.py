"""Traces running frames instruction by instruction, together with any tracer that is already set.

A thread has one ``sys.settrace`` function. If a debugger or coverage tool has set one, it still gets its events, and is
set again at the end. It does not get the instruction events that only we requested.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType, FunctionType, MethodType
from typing import Any, Protocol, cast

from backprobe.source.frames import forget

Outer = Callable[[FrameType, str, Any], Any] | None
STARTING = ("set_trace", "settrace")
"""Functions that start a debugger. A debugger then traces all frames, and cannot handle instruction events."""


class WatchedFrame(Protocol):
    """Receives the events of one frame."""

    def step(self, frame: FrameType) -> None:
        """Called before an instruction runs. The previous instruction has finished."""

    def raised(self, error: BaseException) -> None:
        """Called when the running instruction has raised."""

    def left(self, frame: FrameType, value: Any) -> bool:
        """Called when the frame is left with this value, or with None after an error. Returns True if the frame has
        ended, and False if it was only suspended.
        """


class Tracer:
    """Traces one frame from now on, and later frames if ``entered`` returns a ``WatchedFrame`` for them."""

    def __init__(self, entered: Callable[[FrameType], WatchedFrame | None]) -> None:
        self.entered = entered
        self.frames: dict[FrameType, _Local] = {}
        self.outer: Outer = None
        self.is_stopped = False

    def start(self, frame: FrameType, watched: WatchedFrame) -> None:
        self.outer = cast(Outer, sys.gettrace())
        local: Any = frame.f_trace
        if local is None and not isinstance(self.outer, FunctionType | MethodType):
            local = self.outer  # a tracer written in C sets no trace functions of frames
        self._watch(frame, watched, local)
        sys.settrace(self._call)

    def stop(self) -> bool:
        """Restore the previous tracer. Returns whether the current tracer was still this one, or one of an
        inner block.
        """
        self.is_stopped = True
        self.entered = _nobody  # breaks a reference cycle
        standing = cast(Outer, sys.gettrace())
        for frame, local in self.frames.items():
            if frame.f_trace is local:
                frame.f_trace_opcodes = local.had_opcodes
                frame.f_trace = _running(local.outer)
        frames = [*self.frames]
        self.frames.clear()
        is_ours = standing == self._call
        if is_ours:
            sys.settrace(_running(self.outer))
        for frame in frames:
            forget(frame)
        return is_ours or isinstance(getattr(standing, "__self__", None), Tracer)

    def _watch(self, frame: FrameType, watched: WatchedFrame, outer: Outer) -> _Local:
        local = self.frames[frame] = _Local(self, watched, outer, frame)
        frame.f_trace, frame.f_trace_opcodes = local, True
        return local

    def _call(self, frame: FrameType, event: str, arg: Any) -> Any:
        # Called when a frame is entered or resumed.
        outer, following = None, _running(self.outer)
        if following is not None:
            outer = following(frame, event, arg)
            if sys.gettrace() != self._call:  # a tracer written in C sets itself as the tracer when called
                sys.settrace(self._call)
        if frame.f_code.co_name in STARTING:
            for watched_frame, local in self.frames.items():
                watched_frame.f_trace_opcodes = local.had_opcodes
        known = self.frames.get(frame)
        if known is not None:
            known.outer = outer
            return known
        watched = self.entered(frame)
        return outer if watched is None else self._watch(frame, watched, outer)


class _Local:
    # The trace function of one frame.
    def __init__(self, tracer: Tracer, watched: WatchedFrame, outer: Outer, frame: FrameType) -> None:
        self.tracer, self.watched, self.outer = tracer, watched, outer
        self.had_opcodes = frame.f_trace_opcodes

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        if self.tracer.is_stopped:
            following = _running(self.outer)
            return None if following is None else following(frame, event, arg)
        if event == "opcode":
            self.watched.step(frame)
            if not self.had_opcodes:
                return self
        elif event == "line":
            frame.f_trace_opcodes = True
        elif event == "exception":
            # The traceback of an error is set only in the frame that catches it, so it is set here.
            self.watched.raised(arg[1].with_traceback(arg[2]))
        elif event == "return" and self.watched.left(frame, arg):
            self.tracer.frames.pop(frame, None)
        following = _running(self.outer)
        if following is not None:
            self.outer = following(frame, event, arg)
        # The outer function may have set another trace function of the frame.
        return frame.f_trace if self.tracer.is_stopped else self


def _nobody(frame: FrameType) -> None:
    """Do nothing. Used instead of ``entered`` after tracing has ended, because other tracers may still call this
    tracer.
    """


def _running(outer: Outer) -> Outer:
    # Return the nearest trace function that does not belong to a stopped tracer. Blocks in generators and tasks may not
    # end in the reverse order of their beginnings.
    while outer is not None:
        tracer = outer.tracer if isinstance(outer, _Local) else getattr(outer, "__self__", None)
        if not isinstance(tracer, Tracer) or not tracer.is_stopped:
            break
        outer = outer.outer if isinstance(outer, _Local) else tracer.outer
    return outer
