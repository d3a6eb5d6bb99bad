"""Reentrant checkpoints first run a part of a program without a history. This file finds a running checkpoint and its
arguments.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import torch.utils.checkpoint
from torch import Tensor

from backprobe.backends.framework_code import CodeOf
from backprobe.backends.torch.applied import applied
from backprobe.backends.torch.backward_call import CALLS
from backprobe.backends.user_lines import callers, users_line
from backprobe.record.reasons import Reason
from backprobe.record.source import Source
from backprobe.record.training import APPLIED, CHECKPOINT

FORWARD = CodeOf(torch.utils.checkpoint, "CheckpointFunction.forward")
BACKWARD = CodeOf(torch.utils.checkpoint, "CheckpointFunction.backward")
IN_VAIN = Reason("reentrant_checkpoint")
AGAIN = "computed again by backward"
"""Used instead of a mode's name if the history is only recorded when a checkpoint recomputes its part."""


def to_compute_again() -> Any:
    """Return the context object of the outermost checkpoint that is running without a history; None if there is
    none.
    """
    frame = _checkpoint(sys._getframe(1))
    return None if frame is None else frame.f_locals["ctx"]


def computing_again() -> Any:
    """Return the context object of the innermost checkpoint that is recomputing its part; None if there is none."""
    for frame in callers(sys._getframe(1)):
        if frame.f_code in CALLS:
            break
        if frame.f_code in BACKWARD:
            return frame.f_locals["ctx"]
    return None


def without_history(frame: FrameType) -> tuple[str, FrameType]:
    """Return why the results of a frame have no history, and the frame in which the cause is visible. The cause is the
    name of a mode, or a text for a checkpoint or an ``apply()``.
    """
    inside = _checkpoint(frame)
    if inside is None:
        around = next(applied(frame), None)
        return (mode(), frame) if around is None else (APPLIED, around.caller)
    if inside.f_locals["ctx"].next_functions:
        return AGAIN, frame
    # if an argument requires a gradient, only a mode can be the cause that there is no history
    return (mode() if _requires_gradient(inside) else CHECKPOINT), inside


def mode() -> str:
    """Return the name of the mode that disables gradients here."""
    return "torch.inference_mode()" if torch.is_inference_mode_enabled() else "torch.no_grad()"


def _checkpoint(frame: FrameType) -> FrameType | None:
    # Return the frame of the outermost checkpoint that is running without a history; None if there is none.
    found = None
    for one in callers(frame):
        if one.f_code in BACKWARD:
            break
        if one.f_code in FORWARD:
            found = one
    return found


def in_vain() -> Source | None:
    """Return the user's line that calls the outermost running checkpoint, if none of its tensor arguments requires a
    gradient. Such a checkpoint keeps no history. None in all other cases.
    """
    frame = _checkpoint(sys._getframe(1))
    return None if frame is None or _requires_gradient(frame) else users_line(frame)


def _requires_gradient(checkpoint: FrameType) -> bool:
    # Does any tensor argument of a checkpoint require a gradient?
    return any(isinstance(one, Tensor) and one.requires_grad for one in checkpoint.f_locals["args"])
