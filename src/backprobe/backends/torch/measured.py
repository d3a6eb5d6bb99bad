"""The observed modules of a watch, and the tensors that a step has measured."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from backprobe.backends.torch.compiled_statistics import Places


@dataclass
class MeasuredTensor:
    """A tensor that a step has measured. It is remembered because an outer module may return it again."""

    tensor: weakref.ref[Tensor]
    version: int
    row: Any
    gradient_places: list[int]
    is_awaited: bool = False  # is there a hook for the tensor's gradient?
    counter: Tensor | None = None  # for a view: a tensor that shares the version counter but holds no memory
    has_come: bool = False

    @property
    def is_written(self) -> bool:
        """Is the tensor a view that was written to after it was measured? Then its gradient bypasses the tensor."""
        return self.counter is not None and self.counter._version != self.version


@dataclass
class WatchedModule:
    """An observed module: its name, and the places of the rows for each tensor in its output, by path."""

    path: str
    places: dict[str, Places | None] = field(default_factory=dict)  # None for a tensor that is not selected
    has_line: bool = False  # has the line of the module been searched for?
    others: list[str] = field(default_factory=list)  # for a shared module, its other selected names
