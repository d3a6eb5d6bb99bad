"""Steps with gradients that still carry the scale of a ``GradScaler``, because the program steps the optimizer itself.

The scaler unscales the gradients of an optimizer when it is asked to, or when it steps the optimizer. A gradient that
nothing else has written to since the engine made it was not unscaled by hand either. A fused optimizer unscales by
itself, and has an attribute while it does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.optim import Optimizer

from backprobe.backends.patching import listening
from backprobe.backends.torch.backward_call import BackwardCall
from backprobe.backends.torch.loss_scalers import scaler_of, scalers, scales_noted
from backprobe.backends.torch.optimizer_steps import parameters
from backprobe.backends.torch.tensors import grad_of
from backprobe.backends.useless import scaled_step
from backprobe.backends.user_lines import users_line
from backprobe.record.reasons import Note
from backprobe.record.source import Source

FUSED = "grad_scale"


class ScaledSteps:
    """The optimizers of which each step had gradients that carried a scale."""

    def __init__(self) -> None:
        self.listening = ExitStack()
        self.scales: list[float] = []  # of the calls of ``backward()`` since the last step; 1 without a scaler
        self.unscaled: WeakKeyDictionary[Optimizer, bool] = WeakKeyDictionary()  # until they step
        self.found: WeakKeyDictionary[Optimizer, tuple[float, Source | None]] = WeakKeyDictionary()
        self.others: WeakKeyDictionary[Optimizer, bool] = WeakKeyDictionary()  # optimizers with other steps

    def listen(self) -> None:
        self.listening.enter_context(scales_noted())
        for kind in scalers("unscale_"):
            self.listening.enter_context(listening(kind, "unscale_", self._unscales))

    def stop(self) -> None:
        self.listening.close()

    def _unscales(self, following: Callable[..., Any], scaler: Any, optimizer: Optimizer) -> Any:
        self.unscaled[optimizer] = True
        return following(scaler, optimizer)

    def begins(self, call: BackwardCall) -> None:
        """Called when the program is about to run ``backward()`` or ``autograd.grad``."""
        if not call.is_grad:
            scaler = scaler_of(call.nodes)
            self.scales.append(1.0 if scaler is None else float(scaler.get_scale()))

    def steps(self, optimizer: Optimizer, *_: Any) -> None:
        """Called when an optimizer is about to step."""
        if torch.compiler.is_compiling():
            return
        scales, self.scales = self.scales, []
        gradients = [one for parameter in parameters(optimizer) if (one := grad_of(parameter)) is not None]
        is_as_made = bool(gradients) and not any(one._version for one in gradients)
        is_unscaled = self.unscaled.pop(optimizer, False) or getattr(optimizer, FUSED, None) is not None
        if is_as_made and scales and min(scales) > 1 and not is_unscaled:
            self.found[optimizer] = scales[-1], users_line(sys._getframe(1))
        else:
            self.others[optimizer] = True

    def notes(self) -> Iterator[Note]:
        for optimizer, (scale, at) in self.found.items():
            if optimizer not in self.others:
                yield scaled_step(type(optimizer).__name__, scale, at)
