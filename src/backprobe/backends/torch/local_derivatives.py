"""The derivative of one operation at the first nonfinite element of a gradient, computed by autograd's own node.

A node of autograd can be called while its pass is running. Its saved tensors are then available, no hook is called, and
nothing is stored. It is called with a gradient that is 1 at the element of the result from which the nonfinite element
was computed, and 0 elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import Node

from backprobe.record.elements import result_of
from backprobe.record.nonfinite import LocalDerivative

GENERATED = re.compile(r"\w+Backward\d+")
"""Matches the types of nodes of PyTorch's own operations. Nodes of custom functions are not called, because they may
run the program's code, or communicate.
"""


def local_derivative(
    node: Node, given: Sequence[Tensor | None], made: Sequence[Tensor | None], place: int
) -> LocalDerivative | None:
    """Return the factors of the first nonfinite element of a gradient; None if they cannot be computed, or if their
    product differs from that element.

    ``given`` are the gradients that the node received, ``made`` those that it returned. ``place`` is the nonfinite one.
    """
    came, grad = given[0] if len(given) == 1 else None, made[place]
    is_own = type(node).__module__ == "builtins" and GENERATED.fullmatch(type(node).__name__) is not None
    if came is None or grad is None or not (is_own and _is_plain(came) and _is_plain(grad)):
        return None
    try:
        with torch.no_grad():
            return _asked(node, came, grad, place)
    except Exception:  # noqa: BLE001  the backward pass of the program goes on, whatever a node raises
        return None


def _asked(node: Node, came: Tensor, grad: Tensor, place: int) -> LocalDerivative | None:
    bad = grad.isfinite().logical_not().nonzero()
    at = tuple(bad[0].tolist()) if len(bad) else None
    into = None if at is None else result_of(at, tuple(grad.shape), tuple(came.shape))
    if at is None or into is None:
        return None
    alone = torch.zeros_like(came)
    alone[into] = 1.0
    called: Any = node  # its stub does not say that it is callable
    answer = called(alone)
    made = answer[place] if isinstance(answer, tuple) else answer
    if made is None or made.shape != grad.shape:
        return None
    product = (made[at] * came[into]).to(grad.dtype)
    is_it = bool(product.isnan() == grad[at].isnan()) and bool(product.isinf() == grad[at].isinf())
    return LocalDerivative(at, float(made[at]), float(came[into])) if is_it else None


def _is_plain(tensor: Tensor) -> bool:
    is_dense = type(tensor) is Tensor and tensor.layout is torch.strided and not tensor.is_nested
    return is_dense and tensor.is_cpu and tensor.is_floating_point()
