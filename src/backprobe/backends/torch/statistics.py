"""Computes statistics of tensors: with NumPy on a CPU, and with masks on a device, without waiting for the device.

On a CPU a tensor is read in chunks that fit into the cache. PyTorch computes the sums and NumPy the rest, because each
is faster there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping

import torch
from torch import Tensor

from backprobe.backends.torch.summaries import chunks
from backprobe.backends.torch.tensors import here, is_floating, is_partial, is_there
from backprobe.record.exponents import NONE, Exponents, exponents, merged_exponents
from backprobe.record.gaps import GapCode
from backprobe.record.statistics import CHUNK, NOTHING, PART, Row, measured, merged, repeated

PLAIN = frozenset({torch.float32, torch.float64})


def row_of(tensor: Tensor) -> Row | Tensor | None:
    """Return the statistics of a tensor; None if it is not floating-point, or its numbers cannot be read. For a tensor
    with numbers on a device they are a tensor, too.
    """
    if (
        type(tensor) is Tensor
        and tensor.is_cpu
        and tensor.dtype in PLAIN
        and tensor.layout is torch.strided
        and not tensor.requires_grad
        and not tensor.is_nested
        and tensor.is_contiguous()
    ):  # true for nearly all tensors
        if tensor.numel() <= CHUNK:
            return measured(tensor.numpy(), float(tensor.sum())) if is_there(tensor) else None
        return _summed(torch.split(tensor.view(-1), CHUNK)) if is_there(tensor) else None
    if tensor.is_meta or not is_floating(tensor) or not is_there(tensor) or is_partial(tensor):
        return None
    try:
        return _row(*_numbers(tensor))
    except (RuntimeError, TypeError, NotImplementedError):  # no numbers, or bits that are not numbers
        return None


def why_unread(tensor: Tensor) -> GapCode:
    """Return the reason why a floating-point tensor has no row."""
    return GapCode.PARTIAL if is_partial(tensor) else GapCode.UNREADABLE


def _row(numbers: Tensor, zeros: int) -> Row | Tensor:
    # Return the row of these numbers together with ``zeros`` further zeros, which a sparse tensor does not store.
    if not numbers.is_cpu:
        return masked(numbers, zeros) if numbers.numel() else repeated(ZERO, zeros) if zeros else NOTHING
    once, times = _once(numbers)
    row = _summed(_readable(once))
    row = repeated(row, times) if times > 1 else row
    return merged(row, repeated(ZERO, zeros)) if zeros else row


def _summed(parts: Iterable[Tensor]) -> Row:
    # Return the combined row of all chunks.
    row = NOTHING
    for chunk in parts:
        row = merged(row, measured(chunk.numpy(), float(chunk.sum())))
    return row


def _readable(numbers: Tensor) -> Iterator[Tensor]:
    # Yield chunks that NumPy can read. A chunk that needs a conversion or a copy is split into small parts.
    for chunk in chunks(numbers, CHUNK):
        if chunk.dtype in PLAIN and chunk.is_contiguous():
            yield chunk
            continue
        for part in chunks(chunk, PART):
            yield (part if part.dtype in PLAIN else part.float()).contiguous()


ZERO: Row = (1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0)


def _numbers(tensor: Tensor) -> tuple[Tensor, int]:
    # Return the real numbers that a tensor stores in this process, and the number of zeros that it does not store.
    own = here(tensor)
    size = own.numel() if not own.is_nested else 0
    if own.layout is torch.sparse_coo:
        own = own.coalesce()
    try:
        held = own if own.layout is torch.strided and not own.is_nested else own.values()
    except (RuntimeError, NotImplementedError):  # a special layout, such as that of MKL-DNN
        held = own.to_dense()
    zeros = max(size - held.numel(), 0)
    held = held.resolve_conj().resolve_neg()
    if held.is_complex():
        held, zeros = torch.view_as_real(held), 2 * zeros
    return held, zeros


def _once(numbers: Tensor) -> tuple[Tensor, int]:
    # Return each number of an expanded tensor once, and the number of times that it occurs.
    steps = numbers.stride()
    if 0 not in steps or not numbers.numel():
        return numbers, 1
    once = numbers[tuple(slice(1) if step == 0 else slice(None) for step in steps)]
    return once, numbers.numel() // once.numel()


def exponents_of(tensor: Tensor) -> Exponents | None:
    """Return the histogram of a tensor; None if it is not floating-point, or its numbers cannot be read or are on a
    device.
    """
    if tensor.is_meta or not is_floating(tensor) or not is_there(tensor) or is_partial(tensor):
        return None
    try:
        numbers, _ = _numbers(tensor)
        if not numbers.is_cpu:
            return None
        once, times = _once(numbers)
        found = NONE
        for chunk in _readable(once):
            found = merged_exponents(found, exponents(chunk.numpy()))
        return found.times(times)
    except (RuntimeError, TypeError, NotImplementedError):  # the same errors as in ``row_of``
        return None


# Functions for statistics on a device.


def masked(numbers: Tensor, left_out: int = 0) -> Tensor:
    """Return the statistics of numbers on a device as a tensor, without waiting for the device.

    They are in double precision if the device supports it. ``left_out`` is the number of zeros that are not stored.
    """
    wide = torch.float32 if numbers.device.type == "mps" else torch.float64
    if numbers.dtype not in PLAIN:
        numbers = numbers.float()
    is_finite = torch.isfinite(numbers)
    kept = torch.where(is_finite, numbers, 0)
    finite, nan = is_finite.sum(dtype=wide), torch.isnan(numbers).sum(dtype=wide)
    above, below = ((numbers == bound).sum(dtype=wide) for bound in (math.inf, -math.inf))
    count = torch.full_like(finite, numbers.numel())
    zeros = (numbers == 0).sum(dtype=wide)
    squares = torch.linalg.vector_norm(kept, dtype=wide).square()
    low = torch.where(is_finite, numbers, math.inf).amin().to(wide)
    high = torch.where(is_finite, numbers, -math.inf).amax().to(wide)
    if left_out:
        count, finite, zeros = count + left_out, finite + left_out, zeros + left_out
        low, high = low.clamp(max=0), high.clamp(min=0)
    return torch.stack([count, finite, nan, above, below, zeros, kept.sum(dtype=wide), squares, low, high])


def fetched(rows: Mapping[int, list[Tensor]]) -> Callable[[], Mapping[int, Row]]:
    """Start one transfer from each device, and return a function that waits for the transfers and returns the rows."""
    places = [place for place, held in rows.items() for _ in held]
    together: dict[torch.device, list[int]] = {}
    tensors = [one for held in rows.values() for one in held]
    for at, one in enumerate(tensors):
        together.setdefault(one.device, []).append(at)
    begun = [(at, *_transfer(torch.stack([tensors[one] for one in at]))) for at in together.values()]

    def wait() -> Mapping[int, Row]:
        found: dict[int, Row] = {}
        for at, copies, arrive in begun:
            arrive()
            for one, row in zip(at, copies.tolist(), strict=True):
                found[places[one]] = merged(found.get(places[one], NOTHING), tuple(row))
        return found

    return wait


def _transfer(numbers: Tensor) -> tuple[Tensor, Callable[[], object]]:
    # Return a copy in this machine's memory, and a function that waits until the copy is complete.
    if numbers.is_cpu:
        return numbers, tuple
    copy = numbers.to("cpu", non_blocking=True)
    event = torch.get_device_module(numbers.device).Event()
    event.record()
    return copy, event.synchronize
