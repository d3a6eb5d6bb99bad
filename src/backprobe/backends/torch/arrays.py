"""The tensors of a recording as data: PyTorch's ``Arrays``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from backprobe.backends.facts import Description, Summary
from backprobe.backends.tensors import Arrays
from backprobe.backends.torch import nonfinite, tensors
from backprobe.record.nonfinite import Nonfinite


class TorchArrays(Arrays):
    """Showing and saving PyTorch's tensors."""

    name = "torch"

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, Tensor)

    def describe(self, tensor: Tensor) -> Description:
        return tensors.describe(tensor)

    def summarize(self, tensor: Tensor) -> Summary | None:
        return tensors.summarize(tensor)

    def nonfinite(self, tensors: Sequence[Tensor]) -> list[Nonfinite | None]:
        return nonfinite.nonfinite(tensors)

    def numbers(self, tensor: Tensor) -> Any:
        return tensors.numbers(tensor)

    def to_text(self, tensor: Tensor) -> str:
        return tensors.to_text(tensor)

    def encode(self, tensor: Tensor, blobs: dict[str, Any], seen: dict[Any, str]) -> dict[str, Any]:
        return tensors.encode(tensor, blobs, seen)

    def decode(self, layout: Mapping[str, Any], blobs: Mapping[str, Any]) -> Tensor:
        return tensors.decode(layout, blobs)
