"""Steps of an optimizer that change next to nothing, as where the learning rate is below the rounding of the dtype."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from backprobe.backends.torch.tensors import ORDINARY, grad_of
from backprobe.backends.user_lines import users_line
from backprobe.record.source import Source

SAMPLE = 4096
"""The elements of each parameter that are compared."""
LEAST = 0.01
"""The share of the elements with a gradient that a step changes, or it counts as one without effect."""


@dataclass(frozen=True)
class Step:
    """One step: how many of the sampled elements have a gradient, and how many of these it changed."""

    rate: float
    moved: int
    count: int
    dtype: torch.dtype
    at: Source | None

    @property
    def share(self) -> float:
        return self.moved / self.count if self.count else 1.0


class Steps:
    """The steps of all optimizers."""

    def __init__(self) -> None:
        self.before: dict[Optimizer, list[tuple[Tensor, Tensor, Tensor]]] = {}  # while one steps
        self.steps: WeakKeyDictionary[Optimizer, list[Step]] = WeakKeyDictionary()

    def listen(self) -> list[Any]:
        """Look at every step from now on; what is returned ends that."""
        return [register_optimizer_step_pre_hook(self._begin), register_optimizer_step_post_hook(self._end)]

    def _begin(self, optimizer: Optimizer, *_: Any) -> None:
        if torch.compiler.is_compiling() or any(not _rate(group) for group in optimizer.param_groups):
            return
        sampled = [
            (parameter, _sample(parameter).clone(), _sample(gradient) != 0)
            for group in optimizer.param_groups for parameter in group["params"]
            if (gradient := grad_of(parameter)) is not None and _is_plain(parameter) and _is_plain(gradient)
        ]  # fmt: skip
        if sampled:
            self.before[optimizer] = sampled

    def _end(self, optimizer: Optimizer, *_: Any) -> None:
        sampled = self.before.pop(optimizer, [])
        if not sampled or torch.compiler.is_compiling():
            return
        moved = sum(int(((_sample(parameter) != was) & live).sum()) for parameter, was, live in sampled)
        count = sum(int(live.sum()) for _, _, live in sampled)
        rate = max(_rate(group) for group in optimizer.param_groups)
        step = Step(rate, moved, count, sampled[0][0].dtype, users_line(sys._getframe(1)))
        self.steps.setdefault(optimizer, []).append(step)

    def without_effect(self) -> list[tuple[Optimizer, Step]]:
        """The optimizers of which all steps so far had no effect, two at least, and whose learning rate does not grow
        as in a warm-up; with the last step.
        """
        return [
            (optimizer, steps[-1]) for optimizer, steps in self.steps.items()
            if len(steps) > 1 and steps[-1].rate <= steps[0].rate
            and all(one.count and one.share < LEAST for one in steps)
        ]  # fmt: skip


def _rate(group: dict[str, Any]) -> float:
    # The learning rate of a group; 0 where it has none.
    rate = group.get("lr", 0.0)
    return float(rate) if isinstance(rate, int | float) or (isinstance(rate, Tensor) and rate.numel() == 1) else 0.0


def _sample(tensor: Tensor) -> Tensor:
    # Some of the elements, spread over all of the tensor.
    flat = tensor.detach().flatten()
    return flat[:: max(1, flat.numel() // SAMPLE)]


def _is_plain(tensor: Tensor) -> bool:
    return type(tensor) in ORDINARY and tensor.layout is torch.strided and not (tensor.is_meta or tensor.is_nested)
