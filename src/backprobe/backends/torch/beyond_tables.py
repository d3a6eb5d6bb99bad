"""Explains an embedding's index outside of its table: which index and which table. PyTorch's error lacks both."""

from __future__ import annotations

from types import FrameType

import torch
from torch import Tensor

WORDS = "index out of range in self"


def beyond_table(error: BaseException, frames: list[FrameType]) -> str | None:
    """Return a note with the index, its place and the number of rows; None for other errors, or if the failing frame
    does not hold one table and one index that is beyond it.
    """
    if not isinstance(error, IndexError) or str(error) != WORDS or not frames:
        return None
    held = {name: value for name, value in frames[-1].f_locals.items() if isinstance(value, Tensor)}
    indices = {name: one for name, one in held.items() if one.dtype in (torch.int64, torch.int32) and one.numel()}
    tables = {name: one for name, one in held.items() if one.is_floating_point() and one.ndim == 2}
    if len(indices) != 1 or len(tables) != 1:
        return None
    (name, index), (table, rows) = *indices.items(), *tables.items()
    size = rows.shape[0]
    outside = ((index < 0) | (index >= size)).nonzero()
    if not len(outside):
        return None
    at = tuple(outside[0].tolist())
    where = f" at {list(at)}" if at else ""
    return f"backprobe: the index {int(index[at])}{where} of {name} is beyond {table}, which has {size} rows"
