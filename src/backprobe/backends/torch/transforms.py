"""Transforms of ``torch.func`` inside which no probe can run."""

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
"""The transforms inside which PyTorch lets no tensor require a gradient. The keys are PyTorch's names for them.

Inside ``grad`` and ``vjp`` a tensor may require a gradient, so they are not listed.
"""


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """Return the whole tensor to which a tensor inside a transform such as ``vmap`` belongs. Outside of transforms this
    is the tensor itself.
    """
    while is_wrapped(tensor):
        tensor = unwrapped(tensor)
    return tensor


def is_traced() -> bool:
    """Is AOTAutograd or ``make_fx`` tracing the running code? Tensors are then placeholders without numbers.

    Dynamo also traces, but has its own check: ``torch.compiler.is_dynamo_compiling()``.
    """
    return dispatch_mode(REMOVES_WRITES) is not None or dispatch_mode(TRACES) is not None


def refuse_inside(asked: str) -> None:
    """Raise Unsupported if the innermost transform around the running code is one in which no probe can run."""
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
