"""PyTorch as the programs of the suite see it, spelled as every other framework is; and when two results agree."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

TOLERANCES = {
    "float16": 2e-3,
    "bfloat16": 2e-2,
    "float32": 1e-5,
    "float64": 1e-11,
    "complex64": 1e-5,
    "complex128": 1e-11,
}
"""How far two results of a few operations may be apart, relative to the larger one."""


@dataclass(frozen=True)
class Framework:
    """One framework as the programs see it.

    ``ops`` holds the framework's own functions, so that no function of the tests stands between a program and them.
    """

    name: str
    tensor: Callable[..., Any]  # (numbers, dtype="float32")
    numpy: Callable[[Any], np.ndarray]
    ops: SimpleNamespace
    wide: Callable[[], Any] = field(default=contextlib.nullcontext)  # within it there are 64-bit dtypes

    def given(self, value: Any) -> Any:
        """An argument: floats and lists become float32 tensors, arrays tensors of their own dtype."""
        if isinstance(value, np.ndarray):
            return self.tensor(value, str(value.dtype))
        return self.tensor(value) if isinstance(value, float | list) else value

    def __str__(self) -> str:
        return self.name


def _torch_numpy(tensor: torch.Tensor) -> np.ndarray:
    plain = tensor.detach().resolve_conj()
    return plain.float().numpy() if plain.dtype == torch.bfloat16 else plain.numpy()


def _torch_tensor(numbers: Any, dtype: str = "float32") -> torch.Tensor:
    wide = np.asarray(numbers, np.float32) if dtype == "bfloat16" else np.asarray(numbers)
    return torch.tensor(wide, dtype=getattr(torch, dtype))


TORCH = Framework(
    name="torch",
    tensor=_torch_tensor,
    numpy=_torch_numpy,
    ops=SimpleNamespace(
        sin=torch.sin,
        cos=torch.cos,
        exp=torch.exp,
        tanh=torch.tanh,
        sqrt=torch.sqrt,
        abs=torch.abs,
        relu=torch.relu,
        sum=torch.sum,
        mean=torch.mean,
        where=torch.where,
        stack=torch.stack,
        concat=torch.cat,
        reshape=torch.reshape,
        argmax=torch.argmax,
        stop_gradient=torch.Tensor.detach,
        conj=torch.conj,
        real=torch.real,
        matmul=torch.matmul,
        round=torch.round,
        cast=torch.Tensor.to,
        half=torch.float16,
        brain=torch.bfloat16,
        single=torch.float32,
        integer=torch.int32,
    ),
)


def close(found: Any, wanted: Any, tolerance: float) -> bool:
    """Are two results the same, in shape too, but for rounding?"""
    found, wanted = np.asarray(found), np.asarray(wanted)
    scale = max(1.0, float(np.abs(wanted.astype(complex)).max(initial=0.0)))
    return found.shape == wanted.shape and np.allclose(found, wanted, tolerance, tolerance * scale, equal_nan=True)
