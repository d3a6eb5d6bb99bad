"""Steps with gradients that still carry the scale of a ``GradScaler``, because the program steps the optimizer itself.

The scaler unscales the gradients of an optimizer when it is asked to, or when it steps the optimizer. If the program
has unscaled them by hand, their norms have changed between the end of backward and the step. Identities and versions
would not tell: another tensor may have been assigned to ``.grad``, and ``.grad.data.div_()`` leaves the version as it
was. A fused optimizer unscales by itself, and has an attribute while it does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.autograd.graph import Node
from torch.optim import Optimizer

from backprobe.backends.patching import listening
from backprobe.backends.torch import graph
from backprobe.backends.torch.backward_call import BackwardCall
from backprobe.backends.torch.loss_scalers import scaler_of, scalers, scales_noted
from backprobe.backends.torch.optimizer_steps import parameters
from backprobe.backends.torch.private import queue_callback
from backprobe.backends.torch.tape import quiet
from backprobe.backends.torch.tensors import grad_of, is_plain
from backprobe.backends.useless import scaled_step
from backprobe.backends.user_lines import users_line
from backprobe.record.reasons import Note
from backprobe.record.source import Source

FUSED = "grad_scale"


class ScaledSteps:
    """The steps of optimizers whose gradients carried a scale. An optimizer that also made other steps gets no note."""

    def __init__(self) -> None:
        self.listening = ExitStack()
        self.scales: list[float] = []  # of the calls of ``backward()`` since the last step; 1 without a scaler
        self.brought: dict[int, Tensor] = {}  # norms of gradients that carry a scale, by the ids of their leaves
        # the optimizers whose gradients a scaler has unscaled, until they step
        self.unscaled: WeakKeyDictionary[Optimizer, bool] = WeakKeyDictionary()
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
            if self.scales[-1] > 1:
                at_end(call.nodes[0], partial(self._ended, graph.leaves(graph.all_nodes(call.nodes))))

    def _ended(self, leaves: Iterable[Tensor]) -> None:
        for leaf in leaves:
            is_hooked = leaf._backward_hooks or leaf._post_accumulate_grad_hooks  # which may have unscaled it already
            if not is_hooked and (norm := _norm(grad_of(leaf))) is not None:
                self.brought[id(leaf)] = norm

    def steps(self, optimizer: Optimizer, *_: Any) -> None:
        """Called when an optimizer is about to step."""
        if torch.compiler.is_compiling():
            return
        scales, self.scales = self.scales, []
        is_unscaled = self.unscaled.pop(optimizer, False) or getattr(optimizer, FUSED, None) is not None
        if scales and min(scales) > 1 and not is_unscaled and self._are_as_brought(optimizer):
            self.found[optimizer] = scales[-1], users_line(sys._getframe(1))
        else:
            self.others[optimizer] = True

    def _are_as_brought(self, optimizer: Optimizer) -> bool:
        pairs = [
            (self.brought.get(id(parameter)), _norm(gradient))
            for parameter in parameters(optimizer)
            if (gradient := grad_of(parameter)) is not None
        ]
        is_known = bool(pairs) and not any(before is None or now is None for before, now in pairs)
        return is_known and all(bool(before == now) for before, now in pairs)

    def notes(self) -> Iterator[Note]:
        for optimizer, (scale, at) in self.found.items():
            if optimizer not in self.others:
                yield scaled_step(type(optimizer).__name__, scale, at)


def at_end(root: Node, ended: Callable[[], None]) -> None:
    """Call a function when the pass that is about to start at this node has ended."""

    def begins(*_: Any) -> None:
        handle.remove()
        queue_callback(ended)

    handle: Any = root.register_prehook(begins)


def _norm(gradient: Tensor | None) -> Tensor | None:
    # Return the norm of a gradient; None if there is none, or if its numbers cannot be read.
    if gradient is None or not is_plain(gradient):
        return None
    with quiet(), torch.no_grad():
        norm: Tensor = gradient.norm()
        return norm
