"""NaN and Inf in tensors, detected at the speed of memory, and counted only if there are any.

A finite sum proves that every number is finite, because NaN and Inf survive addition. A sum that is not finite proves
nothing, because finite numbers may overflow. In that case, and on a device, a ``FinitenessLook`` takes the smallest and
largest number: ``aminmax`` makes no copy and propagates NaN, but takes two or three times as long as a sum.
``isfinite`` creates another tensor and is slower still. The results of a ``FinitenessLook`` are read from devices only
at the end, with one transfer from each device.
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
NOTHING = -1  # returned instead of an index: the tensor has no floating-point numbers, or cannot be examined
SUMMED = -2  # returned instead of an index, for a tensor that is known to be finite because its sum is finite
NARROW = 2  # in bytes; narrower dtypes are converted first, because PyTorch cannot sum them or find their extremes
WIDE = frozenset({torch.float32, torch.float64, torch.float16, torch.bfloat16})
Extremes = tuple[Tensor, Tensor]


def _is_plain(tensor: Tensor) -> bool:
    # Can the tensor be summed directly, without any conversion? This is a fast test, because most tensors can.
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
    # Return the floating-point numbers of a tensor, without the zeros that a sparse tensor omits; None if it has none.
    if tensor.is_meta or not is_floating(tensor):
        return None
    numbers = held(tensor)
    if numbers.is_complex():
        numbers = torch.view_as_real(numbers.resolve_conj())
    numbers = _as_it_lies(numbers)
    return numbers if numbers.element_size() >= NARROW else numbers.float()


def _as_it_lies(numbers: Tensor) -> Tensor:
    # Return the same numbers in memory order, each once.
    #
    # Reading a transposed tensor by its strides is ten times slower, and the elements of an expanded tensor would be
    # read repeatedly.
    if numbers.is_contiguous():
        return numbers
    steps = numbers.stride()
    once = numbers[tuple(slice(1) if step == 0 else slice(None) for step in steps)] if 0 in steps else numbers
    return once.permute(sorted(range(numbers.ndim), key=steps.__getitem__, reverse=True))


def kinds(found: Sequence[Extremes]) -> list[Kind]:
    """Return ``finite``, ``inf`` or ``nan`` for each pair of extremes, with one transfer from each device."""
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
    """Tensors that are examined now, with results that are read at the end.

    This list holds the extremes of the tensors that their sum does not prove to be finite.
    """

    def add(self, tensor: Tensor) -> int:
        """Examine a tensor. Returns the number under which its result is read later; see ``NOTHING`` and ``SUMMED``."""
        numbers = tensor if _is_plain(tensor) else _floating(tensor)
        if numbers is None or not numbers.numel():
            return NOTHING
        if numbers.is_cpu and type(numbers) is Tensor and math.isfinite(numbers.sum()):
            return SUMMED
        try:
            self.append(torch.aminmax(numbers))
        except NotImplementedError:  # a library's tensor class without that operation
            return NOTHING
        return len(self) - 1

    def kinds(self) -> list[Kind]:
        """Return the kinds of the examined tensors, by the number that ``add`` has returned."""
        return [*kinds(self), FINITE, FINITE]


def nonfinite(tensors: Sequence[Tensor]) -> list[Nonfinite | None]:
    """Return how many numbers of each tensor are NaN and Inf; None for a tensor that cannot be examined. They are
    counted only if there are any.
    """
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
    # Return a key that is equal for tensors with the same numbers, such as views of another shape, so that these are
    # read once.
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
    # Cached, because most tensors are finite, and the same sizes occur repeatedly.
    return Nonfinite(0, 0, size)


def unfit(named: Mapping[str, Tensor]) -> Found:
    """Return the counts for tensors that contain NaN or Inf. If all sums are finite, each tensor is read once,
    and each device is waited for at most once for each dtype.
    """
    with torch.no_grad():
        doubted = _in_doubt(named)
        if not doubted:
            return {}
        return counted({name: named[name] for name in doubted}, nonfinite)


def _in_doubt(named: Mapping[str, Tensor]) -> list[str]:
    # Return the names of tensors that may contain NaN or Inf: their own sum is not finite, or, on a device, the sum of
    # all tensors with the same dtype there.
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
