"""The precision a function computes in when it is given double precision: the coarsest dtype it casts to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from backprobe.backends.torch.private import DispatchMode
from backprobe.backends.torch.tensors import floating


class Coarsest(DispatchMode):
    """While this is on, ``epsilon`` becomes the rounding of the coarsest that numbers in double precision are cast to.

    Many functions compute in single precision whatever they are given, and give back what they were given: neither
    their inputs nor their outputs tell.
    """

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
