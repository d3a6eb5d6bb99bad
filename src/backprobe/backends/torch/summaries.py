"""Statistics of a tensor for display, computed in chunks in memory order."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from backprobe.backends.facts import Summary
from backprobe.backends.summaries import CHUNK, RunningSummary
from backprobe.backends.torch.tensors import held, here, wide

ON_DEVICE = 1 << 24  # elements of a chunk on a device, where each result requires a transfer
EASY = {torch.float32: (1e-10, 1e10), torch.float64: (1e-100, 1e100)}
"""Limits of magnitude for each dtype. Between them, squares and their sums over a chunk lose no digits that are
shown.
"""


def summarize(tensor: Tensor) -> Summary | None:
    """Return size, count of non-finite values, and rms and largest magnitude of the finite values; None if the tensor
    has no numbers, or bits that are not numbers.
    """
    if tensor.is_meta:
        return None
    own = here(tensor)
    values = held(own.coalesce() if own.layout is torch.sparse_coo else own)
    running = RunningSummary()
    try:
        for chunk in chunks(values, CHUNK if values.is_cpu else ON_DEVICE):
            _add(running, chunk)
    except NotImplementedError:  # a dtype with two numbers in one byte, or with bits that are not numbers
        return None
    return running.summary(zeros=own.numel() - values.numel())


def chunks(values: Tensor, most: int) -> Iterator[Tensor]:
    """Yield the numbers in chunks, in memory order if they are adjacent in memory."""
    order = sorted(range(values.ndim), key=values.stride().__getitem__, reverse=True)
    values = values.permute(order)
    if values.is_contiguous():
        yield from torch.split(values.view(-1), most) if values.numel() else ()
    elif values.numel() <= most:
        yield values
    else:
        longest = max(range(values.ndim), key=values.shape.__getitem__)
        rows = max(1, most * values.shape[longest] // values.numel())
        for part in torch.split(values, rows, longest):
            yield from chunks(part, most) if part.numel() > most else (part,)


def _add(running: RunningSummary, chunk: Tensor) -> None:
    chunk = chunk.contiguous()  # for tensors that are not contiguous, PyTorch's norm loses accuracy
    if chunk.dtype not in EASY:
        chunk = chunk.float() if chunk.dtype in (torch.float16, torch.bfloat16) else wide(chunk)
    parts = torch.view_as_real(chunk.resolve_conj()) if chunk.is_complex() else chunk
    largest = _largest(parts)
    nonfinite = 0
    if not math.isfinite(largest):
        kept = chunk[torch.isfinite(chunk)]
        nonfinite, chunk = chunk.numel() - kept.numel(), kept
        if not chunk.numel():
            running.add(0, nonfinite, 0.0, 0.0, 0.0)
            return
        largest = _largest(torch.view_as_real(chunk) if chunk.is_complex() else chunk)
    low, high = EASY.get(chunk.dtype, (math.inf, 0.0))
    scale = 1.0 if low < largest < high or not largest else largest
    scaled = chunk if scale == 1.0 and not chunk.is_complex() else (chunk / scale).abs()
    top = largest if not chunk.is_complex() else scale * float(scaled.max())
    running.add(chunk.numel(), nonfinite, top, scale, float(torch.linalg.vector_norm(scaled)) ** 2)


def _largest(parts: Tensor) -> float:
    # Return the largest magnitude, or NaN if there is a NaN, because ``aminmax`` returns NaN then.
    low, high = map(float, torch.aminmax(parts))
    return max(-low, high) if math.isfinite(low) else abs(low)
