"""Variations of PyTorch's tensors and modules."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from backprobe.backends.variations import Variation, Variations, no_dtype


class TorchVariations(Variations):
    """Implements ``Variations`` for PyTorch: a floating-point tensor is replaced by a new one, a module by a copy."""

    def varied(self, value: Any, variation: Variation, number: int, undo: list[Callable[[], None]]) -> Any:
        if isinstance(value, nn.Module):
            return _copied(value, variation, number)
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return None
        return _moved(_cast(value, variation.dtype), variation.seed, number).requires_grad_(value.requires_grad)


def _copied(module: nn.Module, variation: Variation, number: int) -> nn.Module:
    made = copy.deepcopy(module)
    if variation.dtype is not None:
        made = made.to(_dtype(variation.dtype))
    with torch.no_grad():
        for at, held in enumerate([*made.parameters(), *made.buffers()]):
            if held.is_floating_point():
                held.copy_(_moved(held.detach(), variation.seed, 1000 * number + at))
    return made


def _cast(tensor: Tensor, dtype: str | None) -> Tensor:
    return tensor.detach().clone() if dtype is None else tensor.detach().to(_dtype(dtype), copy=True)


def _moved(tensor: Tensor, seed: int | None, number: int) -> Tensor:
    if seed is None:
        return tensor
    generator = torch.Generator().manual_seed(1_000_003 * seed + number)
    signs = torch.randint(0, 2, tensor.shape, generator=generator).to(tensor.device) * 2 - 1
    made = torch.nextafter(tensor, (signs * torch.inf).to(tensor.dtype))
    return torch.where(torch.isfinite(tensor) & torch.isfinite(made), made, tensor)


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name, None)
    if isinstance(found, torch.dtype) and found.is_floating_point:
        return found
    raise no_dtype("PyTorch", name)
