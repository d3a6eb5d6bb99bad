"""Reentrant checkpoints, which run a part of a program without a history first: where one runs now, and with what."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import torch.utils.checkpoint
from torch import Tensor

from backprobe.backends.framework_code import CodeOf
from backprobe.backends.torch.backward_passes import CALLS
from backprobe.backends.user_lines import callers, users_line
from backprobe.record.reasons import Reason
from backprobe.record.source import Source

FORWARD = CodeOf(torch.utils.checkpoint, "CheckpointFunction.forward")
BACKWARD = CodeOf(torch.utils.checkpoint, "CheckpointFunction.backward")
IN_VAIN = Reason("reentrant_checkpoint")


def to_compute_again() -> Any:
    """What the outermost checkpoint that now runs without a history keeps its things on: those in it are not asked."""
    frame = _checkpoint()
    return None if frame is None else frame.f_locals["ctx"]


def computing_again() -> Any:
    """What the innermost checkpoint that computes its part again keeps its things on."""
    for frame in callers(sys._getframe(1)):
        if frame.f_code in CALLS:
            break
        if frame.f_code in BACKWARD:
            return frame.f_locals["ctx"]
    return None


def _checkpoint() -> FrameType | None:
    """The outermost checkpoint that now runs without a history."""
    found = None
    for frame in callers(sys._getframe(1)):
        if frame.f_code in BACKWARD:
            break
        if frame.f_code in FORWARD:
            found = frame
    return found


def in_vain() -> Source | None:
    """The user's line that calls a checkpoint which is given nothing that requires a gradient: it keeps no history."""
    frame = _checkpoint()
    if frame is None or any(isinstance(one, Tensor) and one.requires_grad for one in frame.f_locals["args"]):
        return None
    return users_line(frame)
