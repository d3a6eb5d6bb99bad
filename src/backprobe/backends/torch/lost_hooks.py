"""Hooks of leaves that PyTorch removes. The gradient that backward brings to such a leaf is not observed.

Releases up to 2.9 do this if three conditions hold: a leaf is saved for backward, saved-tensor hooks pack it, as those
of checkpoints do, and the backward of a function written in Python reads it. The unpacked tensor then shares the leaf's
node, and removes the node's hooks when it is freed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from backprobe.backends.torch import saved_tensors
from backprobe.backends.torch.private import DisableTorchFunction, disable_current_modes, engine_run


@cache
def may_be_lost() -> bool:
    """Does this release of PyTorch remove hooks from leaves? It is tested once in a process, on a separate tensor."""
    with torch.inference_mode(False), torch.enable_grad(), disable_current_modes(), DisableTorchFunction():
        leaf = torch.zeros(1, device="cpu", requires_grad=True)
        leaf.register_hook(torch.clone)  # type: ignore[no-untyped-call]  # it has no type
        node: Any = leaf.sin().grad_fn
        for name in saved_tensors.names(node):
            for one in saved_tensors.packed(node, name):
                one.register_hooks(torch.clone, torch.clone)
            getattr(node, name)  # the saved tensor is read here, and freed
        return bool(lost([leaf]))


def lost(leaves: Sequence[Tensor]) -> list[Tensor]:
    """Return those of these leaves whose hooks PyTorch no longer calls. The program's hooks are not called by this
    test.
    """
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
            engine_run(
                (*asked,),
                tuple([leaf.detach() for leaf in asked]),
                False,  # the graph is not kept
                False,  # and none is made
                (*asked,),
                allow_unreachable=False,
                accumulate_grad=False,
            )
    finally:
        for hooks, before in zip(own, held, strict=True):
            hooks.clear()
            hooks.update(before)
    return [leaf for at, leaf in enumerate(asked) if at not in heard]


def _hear(heard: set[int], at: int, _: Tensor) -> None:
    heard.add(at)
