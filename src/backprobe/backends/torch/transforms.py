"""Transforms of ``torch.func`` in which no probe can run."""

from __future__ import annotations

import torch

from backprobe.errors import Unsupported

WITHOUT_LEAVES = {"Vmap": "vmap", "Jvp": "jvp", "Functionalize": "functionalize"}
"""Those in which PyTorch lets no tensor require a gradient, as it calls them; ``grad`` and ``vjp`` let it."""


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """What a tensor within a transform is a part of, as one in ``vmap``; itself outside."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor


def refuse_inside(asked: str) -> None:
    """Raise Unsupported where such a transform runs what would be probed."""
    running = torch._C._functorch.peek_interpreter_stack()
    name = None if running is None else WITHOUT_LEAVES.get(running.key().name)
    if name is not None:
        given = "(f, (x,), (v,))[0]" if name == "jvp" else "(f)(x)"
        raise Unsupported(
            f"a probe cannot run inside torch.func.{name}",
            asked=asked,
            found=f"it is called inside torch.func.{name}",
            why="in there PyTorch lets no tensor require a gradient, and backward cannot run",
            next=f"probe a function that calls it: bp.probe(lambda x: torch.func.{name}{given}.sum())(x)",
        )
