"""Finds the precision in which a function computes when it receives double precision: the coarsest dtype to which it
casts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from backprobe.backends.torch.private import DispatchMode
from backprobe.backends.torch.tensors import floating


class Coarsest(DispatchMode):
    """While this mode is on, ``epsilon`` is that of the coarsest dtype that an operation on double precision returned.

    Many functions compute in single precision whatever dtype they receive, and return the dtype that they received.
    Neither inputs nor outputs show this.
    """

    supports_higher_order_operators = True  # without this, PyTorch raises an error at ``torch.cond`` and the like

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # the same
        self.epsilon = 0.0

    def __torch_dispatch__(
        self, operation: Any, types: Sequence[Any], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = operation(*args, **(kwargs or {}))
        given, made = floating((args, kwargs)), floating(result)
        if any(_epsilon(tensor) <= DOUBLE for tensor in given):
            self.epsilon = max([self.epsilon, *map(_epsilon, made)])
        return result


DOUBLE = torch.finfo(torch.float64).eps


def _epsilon(tensor: Tensor) -> float:
    return torch.finfo(tensor.dtype).eps
