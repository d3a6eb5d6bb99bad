"""NaN and Inf in tensors: found at the speed of memory, and counted only where there are any.

A finite sum shows that every number is finite: a NaN or Inf stays one, whatever is added to it. Another sum shows
nothing, since that of finite numbers may overflow. Then, and on a device, the smallest and the largest number decide:
``aminmax`` makes no copy and lets NaN through, but takes two or three times as long as a sum; ``isfinite`` writes a
tensor of its own and is slower still. Nothing is asked of a device before all is over; then all answers come with one
transfer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from backprobe.backends.guarding import counted
from backprobe.backends.guards import Found
from backprobe.backends.torch.tensors import dense, held, here, is_floating, is_there
from backprobe.record.nonfinite import Kind, Nonfinite

FINITE: Kind = "finite"
INF: Kind = "inf"
NAN: Kind = "nan"
BADNESS: dict[Kind, int] = {FINITE: 0, INF: 1, NAN: 2}
NOTHING = -1  # the number of what has no numbers
SUMMED = -2  # and of what is finite by its sum
NARROW = 2  # bytes: dtypes of fewer have no extremes of their own, and no sum
WIDE = frozenset({torch.float32, torch.float64, torch.float16, torch.bfloat16})
Extremes = tuple[Tensor, Tensor]


def _is_plain(tensor: Tensor) -> bool:
    # Can it be summed as it is? Most can, and there are many.
    return (
        type(tensor) is Tensor
        and tensor.is_cpu
        and tensor.dtype in WIDE
        and tensor.layout is torch.strided
        and not tensor.requires_grad
        and not tensor.is_nested
        and tensor.is_contiguous()
    )


def _floating(tensor: Tensor) -> Tensor | None:
    # The floating numbers that a tensor holds, without the zeros that a sparse one leaves out.
    if tensor.is_meta or not is_floating(tensor):
        return None
    numbers = held(tensor)
    if numbers.is_complex():
        numbers = torch.view_as_real(numbers.resolve_conj())
    numbers = _as_it_lies(numbers)
    return numbers if numbers.element_size() >= NARROW else numbers.float()


def _as_it_lies(numbers: Tensor) -> Tensor:
    # The same numbers in the order in which memory has them, each once.
    #
    # A transposed tensor is read ten times slower than it is by its strides, and an expanded one again and again.
    if numbers.is_contiguous():
        return numbers
    steps = numbers.stride()
    once = numbers[tuple(slice(1) if step == 0 else slice(None) for step in steps)] if 0 in steps else numbers
    return once.permute(sorted(range(numbers.ndim), key=steps.__getitem__, reverse=True))


def kinds(found: Sequence[Extremes]) -> list[Kind]:
    """What each pair of extremes tells: ``finite``, ``inf`` or ``nan``. One transfer for each device."""
    told = [FINITE] * len(found)
    groups: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for at, (low, _) in enumerate(found):
        groups.setdefault((low.device, low.dtype), []).append(at)
    answers: dict[torch.device, list[tuple[list[int], Tensor]]] = {}
    for (device, _), places in groups.items():
        lows, highs = (torch.stack([found[at][side] for at in places]) for side in (0, 1))
        codes = torch.isnan(lows) * 2 + (torch.isinf(lows) | torch.isinf(highs))
        answers.setdefault(device, []).append((places, codes))
    for parts in answers.values():
        fetched = torch.cat([part for _, part in parts]).tolist()
        for at, code in zip((at for places, _ in parts for at in places), fetched, strict=True):
            told[at] = NAN if code >= 2 else INF if code else FINITE
    return told


class FinitenessLook(list[Extremes]):
    """Tensors that are looked at now, and told about when all is over.

    It holds the extremes of those that are in doubt: what is finite by its sum needs none.
    """

    def add(self, tensor: Tensor) -> int:
        """Look at a tensor. Returns the number by which its answer is read later; see ``NOTHING`` and ``SUMMED``."""
        numbers = tensor if _is_plain(tensor) else _floating(tensor)
        if numbers is None or not numbers.numel():
            return NOTHING
        if numbers.is_cpu and type(numbers) is Tensor and math.isfinite(numbers.sum()):
            return SUMMED
        try:
            self.append(torch.aminmax(numbers))
        except NotImplementedError:  # of a class of a library that has no such operation
            return NOTHING
        return len(self) - 1

    def kinds(self) -> list[Kind]:
        """What they are, by their numbers."""
        return [*kinds(self), FINITE, FINITE]


def nonfinite(tensors: Sequence[Tensor]) -> list[Nonfinite | None]:
    """How many numbers of each tensor are NaN and Inf: counted only in those that hold one."""
    judged, numbers, found = FinitenessLook(), dict[Any, int](), list[tuple[Tensor, int]]()
    with torch.no_grad():
        for tensor in tensors:
            same = _same_numbers(tensor)
            if same not in numbers:
                numbers[same] = judged.add(tensor) if is_there(tensor) else NOTHING
            found.append((tensor, numbers[same]))
        told = judged.kinds()
        return [None if at == NOTHING and tensor.numel() else _count(tensor, told[at]) for tensor, at in found]


def _same_numbers(tensor: Tensor) -> Any:
    # Equal for tensors that hold the same numbers, such as a view of another shape: these are read once.
    is_plain = tensor.layout is torch.strided and type(tensor) is Tensor and not tensor.is_nested and not tensor.is_meta
    if is_plain and tensor.is_contiguous():
        return tensor.data_ptr(), tensor.numel(), tensor.dtype, tensor.device
    return id(tensor)


def _count(tensor: Tensor, told: str) -> Nonfinite:
    size = (tensor if type(tensor) is Tensor else here(tensor)).numel()
    if told == FINITE:
        return _finite(size)
    numbers = dense(tensor)
    nan, finite = int(torch.isnan(numbers).sum()), int(torch.isfinite(numbers).sum())
    return Nonfinite(nan, numbers.numel() - nan - finite, size)


@lru_cache(1024)
def _finite(size: int) -> Nonfinite:
    # The same for all tensors of a size: most are finite, and of few sizes.
    return Nonfinite(0, 0, size)


def unfit(named: Mapping[str, Tensor]) -> Found:
    """Those that hold NaN or Inf. Each device is waited for once, and numbers that are finite are read once."""
    with torch.no_grad():
        doubted = _in_doubt(named)
        if not doubted:
            return {}
        return counted({name: named[name] for name in doubted}, nonfinite)


def _in_doubt(named: Mapping[str, Tensor]) -> list[str]:
    # The names of those whose sum is not finite.
    doubted, elsewhere = list[str](), dict[Any, list[tuple[str, Tensor]]]()
    for name, tensor in named.items():
        numbers = tensor if _is_plain(tensor) else _floating(tensor) if is_there(tensor) else None
        if numbers is None or not numbers.numel():
            continue
        if not numbers.is_cpu:
            total = numbers.sum(dtype=torch.promote_types(numbers.dtype, torch.float32))
            elsewhere.setdefault((total.device, total.dtype), []).append((name, total))
        elif not math.isfinite(numbers.sum()):
            doubted.append(name)
    for sums in elsewhere.values():
        if not math.isfinite(torch.stack([total for _, total in sums]).sum()):
            doubted += [name for name, _ in sums]
    return doubted
