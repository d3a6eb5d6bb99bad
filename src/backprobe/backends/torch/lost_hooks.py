"""Hooks of leaves that PyTorch takes off: what backward brings to such a leaf is not heard.

Releases up to 2.9 do that where a leaf is saved for backward, hooks pack what is saved, as those of checkpoints do, and
the backward of a function written in Python reads it: the tensor that is made then shares the leaf's node, and takes
the hooks off that when it is freed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from backprobe.backends.torch import saved_tensors
from backprobe.backends.torch.private import DisableTorchFunction, disable_current_modes


@cache
def may_be_lost() -> bool:
    """Does this release take hooks off leaves? It is tried once in a process, on a tensor of our own."""
    with torch.inference_mode(False), torch.enable_grad(), disable_current_modes(), DisableTorchFunction():
        leaf = torch.zeros(1, device="cpu", requires_grad=True)
        leaf.register_hook(torch.clone)  # type: ignore[no-untyped-call]  # it has no type
        node: Any = leaf.sin().grad_fn
        for name in saved_tensors.names(node):
            for one in saved_tensors.packed(node, name):
                one.register_hooks(torch.clone, torch.clone)
            getattr(node, name)  # it is read here, and freed
        return bool(lost([leaf]))


def lost(leaves: Sequence[Tensor]) -> list[Tensor]:
    """Those of some leaves whose hooks PyTorch no longer calls. Hooks of the program are not called here."""
    asked = [leaf for leaf in leaves if leaf.requires_grad and leaf._backward_hooks]
    if not asked:
        return []
    own: list[Any] = [leaf._backward_hooks for leaf in asked]
    held = [dict(hooks) for hooks in own]
    heard: set[int] = set()
    try:
        for at, hooks in enumerate(own):
            hooks.clear()
            hooks[0] = partial(_hear, heard, at)
        with torch.inference_mode(False), torch.enable_grad():
            torch.autograd.grad(asked, asked, [leaf.detach() for leaf in asked])
    finally:
        for hooks, before in zip(own, held, strict=True):
            hooks.clear()
            hooks.update(before)
    return [leaf for at, leaf in enumerate(asked) if at not in heard]


def _hear(heard: set[int], at: int, _: Tensor) -> None:
    heard.add(at)
