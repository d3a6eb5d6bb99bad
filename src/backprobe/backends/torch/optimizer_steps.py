"""The lines that called an optimizer's ``step()``, which writes to parameters that may have no name."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from backprobe.backends.torch.capture import memory, version
from backprobe.backends.torch.tensors import grad_of
from backprobe.backends.user_lines import users_line
from backprobe.record.source import Source

MOST = 16  # the most calls that are remembered, because an error is about one of the latest


@dataclass(frozen=True)
class OptimizerStep:
    """One call of ``step()``: each parameter with its version before and after the call, and the user's line."""

    versions: tuple[tuple[Tensor, int, int], ...]
    at: Source

    def wrote(self, places: Container[int], expected: int, now: int) -> bool:
        """Did this call write to memory at one of these addresses, and raise a version from at least ``expected`` to at
        most ``now``?
        """
        return any(memory(given) in places and expected <= was < after <= now for given, was, after in self.versions)


class Steps:
    """The latest calls of ``step()``."""

    def __init__(self) -> None:
        self.last: deque[OptimizerStep] = deque(maxlen=MOST)
        self.before: dict[Optimizer, list[tuple[Tensor, int]]] = {}  # the tensors of optimizers that are inside step()

    def listen(
        self, expose: Callable[[Tensor], None], look: Callable[[], None], stepped: Callable[[], None]
    ) -> list[Any]:
        """Observe every call from now on, until the returned handles are removed. ``stepped`` is called after each
        call.

        A fused step writes to parameters without raising their versions. ``expose`` is called before such a step with
        the tensors that the step will write to. ``look`` is called after the step.
        """
        self.expose, self.look, self.stepped = expose, look, stepped
        return [register_optimizer_step_pre_hook(self._begin), register_optimizer_step_post_hook(self._end)]

    def _begin(self, optimizer: Optimizer, *_: Any) -> None:
        if not torch.compiler.is_compiling():  # otherwise the compiler warns that it cannot compile this
            self.before[optimizer] = [(tensor, version(tensor)) for tensor in parameters(optimizer)]
            for tensor in _written_uncounted(optimizer):
                self.expose(tensor)

    def _end(self, optimizer: Optimizer, *_: Any) -> None:
        if not torch.compiler.is_compiling():
            versions = tuple((tensor, was, version(tensor)) for tensor, was in self.before.pop(optimizer, ()))
            if _written_uncounted(optimizer):
                self.look()
            self.stepped()
            place = users_line(sys._getframe(1))
            if place is not None:
                self.last.append(OptimizerStep(versions, place))


def _written_uncounted(optimizer: Optimizer) -> list[Tensor]:
    # Return the parameters to which a step writes without a new version.
    fused = [group for group in optimizer.param_groups if group.get("fused")]
    return [tensor for group in fused for tensor in group["params"] if grad_of(tensor) is not None]


def parameters(optimizer: Optimizer) -> list[Tensor]:
    return [tensor for group in optimizer.param_groups for tensor in group["params"]]
