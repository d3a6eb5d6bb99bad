"""Statistics of a tensor in compiled code, merged into a row, using only a few operations that a compiler optimizes
well.

A row for values is an argument of the graph. A row for gradients would have to be saved for backward. Autograd refuses
that if another graph, or another call of the same graph, has written to the row since. On a CPU such rows are therefore
found by name and number: the operator declares an effect, and has no tensor argument to which it writes. Older
compilers drop an operator whose result is not used. There the operator returns a copy of the gradient, and backward
continues with the copy.

On a CPU, five reductions are compiled: sum, sum of squares, zeros, minimum and maximum. They run in float32 over some
thousands of numbers, and in float64 over these results. If there are NaN, infinities, or squares that float32 cannot
represent, the tensor is measured again by an uncompiled operator. On a device, this decision would have to wait for the
device, so everything is counted with masks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import numpy
import torch
from torch import Tensor
from torch.fx.node import has_side_effect

from backprobe.backends.torch.dynamo import FINDS_EFFECTS
from backprobe.backends.torch.statistics import masked, row_of
from backprobe.record.statistics import COLUMNS, NOTHING, Row, merged

ADDED = len(COLUMNS) - 2  # the number of columns before the extremes
NARROW = frozenset({torch.float32, torch.float16, torch.bfloat16})
LEAST = 1e-33
"""Mean squares below this may be wrong in the fifth digit in float32, whose smallest normal number is 1.2e-38."""
ABREAST, TOGETHER = 4, 4096
"""The number of parts into which a tensor is split if its size allows it, and the largest count of numbers that are
summed in float32.

The parts are combined pairwise before they are summed, because in one long sum each addition waits for the one before.
"""


Kept = tuple[str, int]
"""A row outside of the graph: the name of its ``CompiledRows``, and its place."""


def merge(row: Tensor | Kept, numbers: Tensor) -> Tensor | None:
    """Merge the statistics of these numbers into a row. If a copy is returned, backward must continue with the copy."""
    with torch.no_grad():
        plain = numbers.detach()
        plain = torch.view_as_real(plain) if plain.is_complex() else plain
        if isinstance(row, tuple):
            return _merged_outside(row, plain, numbers)
        if plain.is_cpu:
            torch.ops.backprobe.merge_(row, _quick(plain), plain)
        else:
            row.copy_(_merged_there(row, masked(plain)))
    return None


def _merged_outside(row: Kept, plain: Tensor, numbers: Tensor) -> Tensor | None:
    # Merge the statistics of a gradient into a row outside of the graph.
    if FINDS_EFFECTS:
        torch.ops.backprobe.merge_kept(*row, _quick(plain), plain)
        return None
    copy: Tensor = torch.ops.backprobe.merge_and_copy(*row, _quick(plain), plain, numbers.detach())
    return None if numbers.requires_grad else copy  # a gradient with a history is not in a compiled graph


def _merged_there(row: Tensor, new: Tensor) -> Tensor:
    low, high = torch.minimum(row[ADDED], new[ADDED]), torch.maximum(row[ADDED + 1], new[ADDED + 1])
    return torch.cat([row[:ADDED] + new[:ADDED], torch.stack([low, high])])


def _quick(plain: Tensor) -> Tensor | None:
    # Return the number of zeros, sum, sum of squares and extremes; None if there is no fast algorithm.
    if plain.dtype not in NARROW or type(plain.numel()) is not int:
        return None
    # few numbers are summed in float64, which costs nothing
    parts = _abreast(plain.double() if plain.numel() <= TOGETHER else plain.float())
    zeros = _sum([torch.where(part == 0, 1.0, 0.0).to(part.dtype) for part in parts])
    extremes = [_both(torch.minimum, parts).amin(-1).amin(), _both(torch.maximum, parts).amax(-1).amax()]
    sums = [zeros, _sum(parts), _sum([part * part for part in parts])]
    return torch.stack([*sums, *(one.double() for one in extremes)])


def _abreast(numbers: Tensor) -> list[Tensor]:
    # Return the numbers in parts of equal size. Each part has rows of at most TOGETHER numbers, short enough to be
    # summed in float32. A tensor that is not contiguous is one part, with its own shape.
    if not numbers.is_contiguous():
        return [numbers if numbers.dim() else numbers.reshape(1)]
    count = ABREAST if numbers.numel() % ABREAST == 0 else 1
    size = numbers.numel() // count
    together = next(divisor for divisor in range(min(size, TOGETHER), 0, -1) if size % divisor == 0)
    rows = numbers.view(-1, count, together)
    return [rows[:, one] for one in range(count)]


def _both(one_of: Callable[[Tensor, Tensor], Tensor], parts: list[Tensor]) -> Tensor:
    # Combine parts pairwise, so that no operation waits for another.
    while len(parts) > 1:
        parts = [one_of(*parts[at : at + 2]) for at in range(0, len(parts), 2)]
    return parts[0]


def _sum(parts: list[Tensor]) -> Tensor:
    return _both(torch.add, parts).sum(-1).double().sum()


MANY = 64  # rows in one array


class CompiledRows:
    """The rows into which compiled code merges statistics, by place. On a CPU they are adjacent in NumPy arrays.

    Each row is a tensor in an attribute of its own. Dynamo guards only on the attributes that the code uses, so rows
    that are created during tracing do not invalidate the code. It also guards on ``name``, so code compiled for another
    object is compiled again for this one.
    """

    def __init__(self) -> None:
        self.name = str(next(NAMES))
        self.places: dict[int, Tensor] = {}
        self.arrays: list[Any] = []
        self.there: list[int] = []  # the places whose rows are in ``arrays``
        KEPT[self.name] = self

    def make(self, place: int, device: str) -> None:
        """Create the row of a place, unless the row exists."""
        if place in self.places:
            return
        if device == "cpu":
            number, at = divmod(len(self.there), MANY)
            if not at:
                self.arrays.append(numpy.tile(NOTHING, (MANY, 1)))
            self.there.append(place)
            row = torch.from_numpy(self.arrays[number][at])
        else:
            row = torch.tensor(NOTHING, dtype=_wide(device), device=device)
        self.places[place] = row
        setattr(self, f"row{place}", row)

    def take(self) -> dict[int, Row | Tensor]:
        """Return the statistics merged since the last call, by place, and reset the rows. Rows on the CPU that received
        no numbers are left out.
        """
        taken: dict[int, Row | Tensor] = {}
        for place, row in self.places.items() if len(self.there) < len(self.places) else ():
            if not row.is_cpu:
                taken[place] = row.clone()
                row.copy_(torch.tensor(NOTHING))
        rows = (row for array in self.arrays for row in array.tolist())
        taken.update((place, tuple(row)) for place, row in zip(self.there, rows, strict=False) if row[0])
        for array in self.arrays:
            array[:] = NOTHING
        return taken


NAMES = count()
KEPT: WeakValueDictionary[str, CompiledRows] = WeakValueDictionary()
"""The rows of all existing watches, by name."""


def _wide(device: str) -> torch.dtype:
    return torch.float32 if device.startswith("mps") else torch.float64


def _merge(row: Tensor, quick: Tensor | None, numbers: Tensor) -> None:
    # Merge new numbers into a row. The fast statistics are used if they are accurate; otherwise the numbers are read
    # again.
    new = (None if quick is None else _checked(quick.tolist(), float(numbers.numel()))) or row_of(numbers)
    if isinstance(new, tuple):  # None if the tensor has no numbers
        held = row.numpy()
        held[:] = merged(held.tolist(), new)


def _merge_kept(rows: str, place: int, quick: Tensor | None, numbers: Tensor) -> None:
    kept = KEPT.get(rows)
    if kept is not None:  # otherwise the watch is over
        _merge(kept.places[place], quick, numbers)


def _merge_and_copy(rows: str, place: int, quick: Tensor | None, plain: Tensor, numbers: Tensor) -> Tensor:
    _merge_kept(rows, place, quick, plain)
    return numbers.clone()


def _checked(quick: list[float], count: float) -> Row | None:
    # Return the row of the fast statistics; None if they are not accurate.
    zeros, _, squares, *_ = quick
    if math.isfinite(squares) and (squares >= LEAST * count or zeros == count):
        return (count, count, 0.0, 0.0, 0.0, *quick)
    return None


library: Any = torch.library  # ``Any``, because the functions of torch.library have no types
LIBRARY = library.Library("backprobe", "DEF")
LIBRARY.define("merge_(Tensor(a!) row, Tensor? quick, Tensor numbers) -> ()")
LIBRARY.impl("merge_", _merge, "CPU")
LIBRARY.impl("merge_", lambda row, quick, numbers: None, "Meta")
LIBRARY.define("merge_kept(str rows, int place, Tensor? quick, Tensor numbers) -> ()")
LIBRARY.impl("merge_kept", _merge_kept, "CPU")
LIBRARY.impl("merge_kept", lambda rows, place, quick, numbers: None, "Meta")
LIBRARY.define("merge_and_copy(str rows, int place, Tensor? quick, Tensor plain, Tensor numbers) -> Tensor")
LIBRARY.impl("merge_and_copy", _merge_and_copy, "CPU")
LIBRARY.impl("merge_and_copy", lambda rows, place, quick, plain, numbers: numbers.clone(), "Meta")
has_side_effect(torch.ops.backprobe.merge_kept.default)
