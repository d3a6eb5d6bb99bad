"""The dialects of all frameworks: data alone, which imports none of them."""

from __future__ import annotations

from collections.abc import Mapping

from backprobe.backends.dialects import jax, tensorflow, torch
from backprobe.backends.dialects.dialect import Dialect

DIALECTS: Mapping[str, Dialect] = {one.DIALECT.name: one.DIALECT for one in (torch, tensorflow, jax)}


def dialect_of(framework: str) -> Dialect:
    """The dialect of a framework. Recordings that name no framework are from before the second one was supported:
    PyTorch.
    """
    return DIALECTS.get(framework, torch.DIALECT)
