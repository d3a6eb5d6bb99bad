"""Steps of an optimizer that change almost nothing, for example because the learning rate is below the dtype's
rounding.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from backprobe.backends.torch.tensors import ORDINARY, grad_of
from backprobe.backends.useless.steps import SampledStep, SampledSteps, spread
from backprobe.backends.user_lines import users_line


class TorchSteps(SampledSteps):
    """The steps of all optimizers of a PyTorch program."""

    def __init__(self) -> None:
        super().__init__()
        self.before: dict[Optimizer, list[tuple[Tensor, Tensor, Tensor]]] = {}  # filled while an optimizer steps

    def listen(self) -> list[Any]:
        """Observe every step from now on, until the returned handles are removed."""
        return [register_optimizer_step_pre_hook(self._begin), register_optimizer_step_post_hook(self._end)]

    def _begin(self, optimizer: Optimizer, *_: Any) -> None:
        if torch.compiler.is_compiling() or any(not _rate(group) for group in optimizer.param_groups):
            return
        sampled = [
            (parameter, _sample(parameter).clone(), _sample(gradient) != 0)
            for group in optimizer.param_groups
            for parameter in group["params"]
            if (gradient := grad_of(parameter)) is not None and _is_plain(parameter) and _is_plain(gradient)
        ]
        if sampled:
            self.before[optimizer] = sampled

    def _end(self, optimizer: Optimizer, *_: Any) -> None:
        sampled = self.before.pop(optimizer, [])
        if not sampled or torch.compiler.is_compiling():
            return
        moved = sum(int(((_sample(parameter) != was) & live).sum()) for parameter, was, live in sampled)
        count = sum(int(live.sum()) for _, _, live in sampled)
        rate = max(_rate(group) for group in optimizer.param_groups)
        dtype = str(sampled[0][0].dtype).removeprefix("torch.")
        self.made(optimizer, SampledStep(rate, moved, count, dtype, users_line(sys._getframe(1))))


def _rate(group: dict[str, Any]) -> float:
    # Return the learning rate of a parameter group; 0 if it has none.
    rate = group.get("lr", 0.0)
    return float(rate) if isinstance(rate, int | float) or (isinstance(rate, Tensor) and rate.numel() == 1) else 0.0


def _sample(tensor: Tensor) -> Tensor:
    # Return some of the elements, spread over the whole tensor.
    flat = tensor.detach().flatten()
    return flat[spread(flat.numel())]


def _is_plain(tensor: Tensor) -> bool:
    return type(tensor) in ORDINARY and tensor.layout is torch.strided and not (tensor.is_meta or tensor.is_nested)
