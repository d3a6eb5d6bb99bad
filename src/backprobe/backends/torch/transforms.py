"""Transforms of ``torch.func`` in which no probe can run."""

from __future__ import annotations

import torch

from backprobe.backends.torch.private import (
    REMOVES_WRITES,
    TRACES,
    dispatch_mode,
    innermost_transform,
    is_wrapped,
    unwrapped,
)
from backprobe.errors import Unsupported

WITHOUT_LEAVES = {"Vmap": "vmap", "Jvp": "jvp", "Functionalize": "functionalize"}
"""Those in which PyTorch lets no tensor require a gradient, as it calls them; ``grad`` and ``vjp`` let it."""


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """What a tensor within a transform is a part of, as one in ``vmap``; itself outside."""
    while is_wrapped(tensor):
        tensor = unwrapped(tensor)
    return tensor


def is_traced() -> bool:
    """Is a graph made of what runs here, by AOTAutograd or ``make_fx``? Its tensors stand for others, without numbers.

    Dynamo, which does so too, says it by itself: ``torch.compiler.is_dynamo_compiling()``.
    """
    return dispatch_mode(REMOVES_WRITES) is not None or dispatch_mode(TRACES) is not None


def refuse_inside(asked: str) -> None:
    """Raise Unsupported where such a transform runs what would be probed."""
    running = innermost_transform()
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
