"""Reports the tensors whose attribute ``backward`` a program reads, usually to call it. This adds no frame to the call.

PyTorch's warnings in a backward pass count frames up to the line that called ``backward()``. A function that wrapped
``Tensor.backward`` would be that line.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from backprobe.backends.torch.dynamo import leave_alone


class ReadBackward:
    """A descriptor that takes the place of ``Tensor.backward``. When the thread that made the descriptor reads the
    attribute of a tensor, the tensor is reported. The value of the attribute is PyTorch's own method.

    A function that calls ``backward()`` may be compiled. Dynamo leaves that call to Python, and would then compile the
    functions that run here, so they are excluded.
    """

    def __init__(self, own: Any, report: Callable[[Tensor], None]) -> None:
        self.own = own
        disable: Any = torch.compiler.disable  # has no types
        self.report: Callable[[Tensor], None] = disable(report)
        self.thread = threading.get_ident()

    def __get__(self, tensor: Tensor | None, kind: type) -> Any:
        if tensor is not None and threading.get_ident() == self.thread:
            self.report(tensor)
        return self.own.__get__(tensor, kind)


@contextmanager
def backward_read(report: Callable[[Tensor], None]) -> Iterator[None]:
    """Within this context, each tensor of this thread whose ``backward`` is read is reported first."""
    kind: Any = Tensor
    leave_alone(ReadBackward.__get__)
    stands = ReadBackward(vars(Tensor)["backward"], report)
    kind.backward = stands
    try:
        yield
    finally:
        if vars(Tensor)["backward"] is stands:  # otherwise the program has replaced it
            kind.backward = stands.own
