"""The statistics of a tensor in compiled code, merged into a row: what a compiler can do in few and fast operations.

On a CPU five reductions are compiled, over numbers as they are: their sum, that of squares, zeros, least and greatest,
in float32 over some thousands of numbers and in float64 over these. Where there are NaN and infinities, or squares that
float32 cannot hold, the tensor is measured again as outside of compiled code. That is asked by an operator, which the
compiler does not look into. On a device, where asking would wait, all is counted by masks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from backprobe.backends.torch.statistics import masked, row_of
from backprobe.record.statistics import COLUMNS, Row, merged

ADDED = len(COLUMNS) - 2  # the columns before the extremes
NARROW = frozenset({torch.float32, torch.float16, torch.bfloat16})
LEAST = 1e-33
"""Mean squares below it may have lost their fifth digit in float32, whose least normal number is 1.2e-38."""
ABREAST, TOGETHER = 4, 4096
"""So many numbers are reduced to one before they are added up: an addition waits for the one before it. And so many
results are added up in float32."""


def merge(row: Tensor, numbers: Tensor) -> None:
    """Merge the statistics of some numbers into a row."""
    with torch.no_grad():
        plain = numbers.detach()
        plain = torch.view_as_real(plain) if plain.is_complex() else plain
        if plain.is_cpu:
            torch.ops.backprobe.merge_(row, _quick(plain), plain)
        else:
            row.copy_(_merged_there(row, masked(plain)))


def _merged_there(row: Tensor, new: Tensor) -> Tensor:
    low, high = torch.minimum(row[ADDED], new[ADDED]), torch.maximum(row[ADDED + 1], new[ADDED + 1])
    return torch.cat([row[:ADDED] + new[:ADDED], torch.stack([low, high])])


def _quick(plain: Tensor) -> Tensor | None:
    # Zeros, sum, squares and extremes; None where they are not quick.
    if plain.dtype not in NARROW or type(plain.numel()) is not int:
        return None
    parts = _abreast(plain.double() if plain.numel() <= TOGETHER else plain.float())  # few: exact costs nothing
    zeros = _sum([torch.where(part == 0, 1.0, 0.0).to(part.dtype) for part in parts])
    extremes = [_both(torch.minimum, parts).amin(-1).amin(), _both(torch.maximum, parts).amax(-1).amax()]
    sums = [zeros, _sum(parts), _sum([part * part for part in parts])]
    return torch.stack([*sums, *(one.double() for one in extremes)])


def _abreast(numbers: Tensor) -> list[Tensor]:
    # Equal parts of some numbers, in rows of those that are added up in float32.
    if not numbers.is_contiguous():
        return [numbers if numbers.dim() else numbers.reshape(1)]
    count = ABREAST if numbers.numel() % ABREAST == 0 else 1
    size = numbers.numel() // count
    together = next(divisor for divisor in range(min(size, TOGETHER), 0, -1) if size % divisor == 0)
    rows = numbers.view(-1, count, together)
    return [rows[:, one] for one in range(count)]


def _both(one_of: Callable[[Tensor, Tensor], Tensor], parts: list[Tensor]) -> Tensor:
    # Parts brought together pair by pair, so that none waits for another.
    while len(parts) > 1:
        parts = [one_of(*parts[at : at + 2]) for at in range(0, len(parts), 2)]
    return parts[0]


def _sum(parts: list[Tensor]) -> Tensor:
    return _both(torch.add, parts).sum(-1).double().sum()


def _merge(row: Tensor, quick: Tensor | None, numbers: Tensor) -> None:
    # Merge new numbers into a row; their quick statistics are used where they are right.
    new = (None if quick is None else _checked(quick.tolist(), float(numbers.numel()))) or row_of(numbers)
    if isinstance(new, tuple):  # it is not where a tensor has no numbers
        held = row.numpy()
        held[:] = merged(held.tolist(), new)


def _checked(quick: list[float], count: float) -> Row | None:
    # The row that quick statistics are; None where they are wrong.
    zeros, _, squares, *_ = quick
    if math.isfinite(squares) and (squares >= LEAST * count or zeros == count):
        return (count, count, 0.0, 0.0, 0.0, *quick)
    return None


library: Any = torch.library  # whose functions have no types
LIBRARY = library.Library("backprobe", "DEF")
LIBRARY.define("merge_(Tensor(a!) row, Tensor? quick, Tensor numbers) -> ()")
LIBRARY.impl("merge_", _merge, "CPU")
LIBRARY.impl("merge_", lambda row, quick, numbers: None, "Meta")
