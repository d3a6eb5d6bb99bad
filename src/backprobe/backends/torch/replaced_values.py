"""Replaces values and gradients of a program: values by copies, gradients by hooks on tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy
import torch
import torch.utils.checkpoint
from torch import Tensor

from backprobe.backends.capabilities import Replaces
from backprobe.backends.framework_code import CodeOf
from backprobe.backends.torch.arguments import alias
from backprobe.backends.torch.bridging import bridged
from backprobe.backends.torch.capture import Capture, gradient_edge
from backprobe.backends.torch.graph import Key, key
from backprobe.backends.torch.tensors import copied
from backprobe.backends.user_lines import callers

CHECKPOINT = CodeOf(torch.utils.checkpoint, "checkpoint")


class Change:
    """One of backprobe's hooks: it changes the gradient of a tensor."""

    def __init__(self, change: Callable[[Any], Any]) -> None:
        self.change = change

    def __call__(self, gradient: Tensor) -> Tensor:
        return self.change(gradient)  # type: ignore[no-any-return]  # it gives a Tensor


def users_hooks(tensor: Tensor) -> int:
    """Return the number of hooks on a tensor, without those that change a gradient for ``replace_grad=``."""
    return sum(type(hook) is not Change for hook in (tensor._backward_hooks or {}).values())


class TorchReplaces(Replaces):
    """Implements ``Replaces`` for PyTorch."""

    hooks: list[Any]
    changed: dict[Key, None]
    """The gradient edges of the tensors whose gradients are changed."""

    def handed(self, tensor: Tensor) -> Tensor:
        return copied(tensor)

    def as_tensor(self, new: Any, like: Tensor) -> Tensor | None:
        if isinstance(new, Tensor):
            return new
        if isinstance(new, numpy.ndarray | numpy.generic):
            return torch.as_tensor(numpy.array(new), device=like.device)
        if isinstance(new, bool | int | float | complex):
            return torch.as_tensor(new, dtype=like.dtype, device=like.device)
        return None

    def instead(self, new: Tensor, original: Tensor, is_given: bool) -> Tensor:
        is_differentiated = new.requires_grad or not original.requires_grad or not torch.is_grad_enabled()
        if not is_differentiated:
            return alias(copied(new.detach()))  # as a copy, not as a leaf: PyTorch forbids writing to leaves
        return copied(new) if is_given else new

    def mixed(self, new: Tensor, original: Tensor, index: tuple[Any, ...]) -> Tensor:
        made = copied(original)
        made[index] = new[index]
        return made

    def like(self, array: Any, tensor: Tensor) -> Tensor:
        return torch.as_tensor(numpy.array(array)).to(tensor.device, tensor.dtype)

    def with_numbers(self, new: Tensor, original: Tensor) -> Tensor:
        made = copied(original)
        with torch.no_grad():
            return made.copy_(new)

    def linked(self, value: Any, sources: Sequence[Any]) -> Any | None:
        return bridged(value, [*sources])

    def original_value(self, tensor: Tensor) -> Callable[[], Tensor]:
        value = copied(tensor.detach())
        return lambda: value

    def with_gradient(self, tensor: Tensor, change: Callable[[Any], Any]) -> Tensor:
        if tensor.requires_grad:
            handle = tensor.register_hook(Change(change))  # type: ignore[no-untyped-call]  # it has no type
            self.hooks += (handle.hooks_dict_ref(), handle.id)
            edge = gradient_edge(tensor)
            self.changed |= {} if edge is None else {key(edge): None}
        return tensor

    def mark_changed(self, captures: Sequence[Capture]) -> None:
        """Mark the captures whose gradient was changed by a hook. This must be done early, because a tensor loses its
        hooks when the program writes to it.
        """
        for capture in captures if self.changed else ():
            if capture.edge is not None and key(capture.edge) in self.changed:
                capture.is_changed = True

    def runs_again(self) -> bool:
        return any(frame.f_code in CHECKPOINT for frame in callers(sys._getframe()))
