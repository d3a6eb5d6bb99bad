"""Reads the numbers of PyTorch's tensors as rows, in chunks."""

from __future__ import annotations

import torch
from torch import Tensor

from backprobe.backends.rows import BFLOAT16, Rows
from backprobe.backends.torch.tensors import dense, is_floating, is_there

HALF = (torch.float16, torch.bfloat16)


def rows(tensor: Tensor) -> Rows | None:
    """Return the numbers of a tensor as rows, or None if they cannot be read.

    The numbers keep their dtype, bfloat16 as its bits. Floating-point numbers of one byte are converted to single
    precision.
    """
    if not is_there(tensor) or tensor.is_meta or tensor.is_nested:
        return None
    values = dense(tensor)
    is_other = is_floating(values) and values.dtype.itemsize < 4 and values.dtype not in HALF
    try:
        values = (values.float() if is_other else values).resolve_conj().resolve_neg()
        if values.dtype is torch.bfloat16:
            return Rows(values.view(torch.uint16).cpu().numpy(), BFLOAT16)
        return Rows.of(values.cpu().numpy())
    except (NotImplementedError, RuntimeError, TypeError):  # packed dtypes, and dtypes whose bits are not numbers
        return None
