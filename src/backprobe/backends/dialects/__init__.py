"""The dialects of all frameworks. They are plain data, so no framework is imported."""

from __future__ import annotations

from collections.abc import Mapping

from backprobe.backends.dialects import jax, tensorflow, torch
from backprobe.backends.dialects.dialect import Dialect

DIALECTS: Mapping[str, Dialect] = {one.DIALECT.name: one.DIALECT for one in (torch, tensorflow, jax)}


def dialect_of(framework: str) -> Dialect:
    """Return the dialect of a framework, or that of PyTorch for any other name. A recording without a framework's name
    is from the time when only PyTorch was supported.
    """
    return DIALECTS.get(framework, torch.DIALECT)
