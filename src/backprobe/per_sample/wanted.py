"""A value whose per-sample gradients are computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from backprobe.backends.vectorized import Gradients
from backprobe.record.entries import Entry

Use = Callable[[int, Any, Gradients], object]
"""Receives the losses and gradients of a chunk of samples; the number is the position of the first sample."""


@dataclass(frozen=True)
class Wanted:
    """A value whose gradients are computed.

    ``name`` is its printed name. ``keys`` are the full names by which it is replaced. ``entry`` is its entry in the
    recording of the batch, and ``names`` are all its names. ``alone`` is the value in a run of one sample, and
    ``shape`` its shape there. ``axis`` is the batch axis, whose length is 1 for one sample; None if the value has no
    batch axis, like a parameter.
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
        """Do all samples share this value, like a parameter?"""
        return self.axis is None and self.shape == self.entry.shape
