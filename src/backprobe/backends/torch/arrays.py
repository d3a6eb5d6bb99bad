"""Implements ``Arrays`` for PyTorch: the tensors of a recording as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from backprobe.backends.tensors import Arrays
from backprobe.backends.torch import evaluation, nonfinite, rows, summaries, tensors


class TorchArrays(Arrays):
    """Shows and saves tensors of PyTorch."""

    name = "torch"
    describe = staticmethod(tensors.describe)
    summarize = staticmethod(summaries.summarize)
    nonfinite = staticmethod(nonfinite.nonfinite)
    numbers = staticmethod(tensors.numbers)
    rows = staticmethod(rows.rows)
    sample = staticmethod(tensors.sample)
    to_text = staticmethod(tensors.to_text)
    encode = staticmethod(tensors.encode)
    decode = staticmethod(tensors.decode)
    evaluate = staticmethod(evaluation.evaluate)

    def weighted(self, terms: Sequence[tuple[float | None, Any]]) -> Any:
        return super().weighted(sorted(terms, key=lambda term: term[1].layout is not torch.strided))  # sparse last

    def inner(self, cotangent: Any, tensor: Any) -> Any:
        return (cotangent.conj() * tensor).sum().real

    def one(self, like: Any) -> Any:
        return torch.ones((), dtype=like.real.dtype, device=like.device)

    def version(self, tensor: Any) -> int | None:
        return None if tensor.is_inference() else int(tensor._version)  # inference tensors do not count writes

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, Tensor)
