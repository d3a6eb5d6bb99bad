"""A value whose per-sample gradients are taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from backprobe.backends.vectorized import Gradients
from backprobe.record.entries import Entry

Use = Callable[[int, Any, Gradients], object]
"""A function of the losses and gradients of some samples; the number is that of the first sample."""


@dataclass(frozen=True)
class Wanted:
    """A value whose gradients are taken: its name, the full ones to replace it by, its entry in the batch, all names.

    ``alone`` is the value as one sample computes it. ``axis`` is that of the batch, which a sample has with length 1;
    None for what has none, as a parameter.
    """

    name: str
    keys: tuple[str, ...]
    entry: Entry
    names: tuple[str, ...]
    alone: Any = None
    shape: tuple[int, ...] = ()
    axis: int | None = None

    @property
    def is_shared(self) -> bool:
        """Is it one value that all samples have in common?"""
        return self.axis is None and self.shape == self.entry.shape
