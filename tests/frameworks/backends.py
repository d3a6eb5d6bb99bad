"""The frameworks that the suite runs on, each spelled alike: making tensors, reading them, and a few operators.

One that is absent fails this import, and with it every test of the folder.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # what TensorFlow has to say about the machine

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import tensorflow as tf
import torch

TOLERANCES = {
    "float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5, "float64": 1e-11, "complex64": 1e-5, "complex128": 1e-11,
}  # fmt: skip
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


def _widened(array: Any) -> np.ndarray:
    array = np.asarray(array)
    return array.astype(np.float32) if array.dtype == ml_dtypes.bfloat16 else array


TORCH = Framework(
    name="torch",
    tensor=_torch_tensor,
    numpy=_torch_numpy,
    ops=SimpleNamespace(
        sin=torch.sin, cos=torch.cos, exp=torch.exp, tanh=torch.tanh, sqrt=torch.sqrt, abs=torch.abs, relu=torch.relu,
        sum=torch.sum, mean=torch.mean, where=torch.where, stack=torch.stack, concat=torch.cat, reshape=torch.reshape,
        argmax=torch.argmax, stop_gradient=torch.Tensor.detach, conj=torch.conj, real=torch.real, matmul=torch.matmul,
        round=torch.round, cast=torch.Tensor.to, half=torch.float16, brain=torch.bfloat16, single=torch.float32,
        integer=torch.int32,
    ),
)  # fmt: skip
TENSORFLOW = Framework(
    name="tensorflow",
    tensor=lambda numbers, dtype="float32": tf.constant(numbers, dtype),
    numpy=lambda tensor: _widened(tf.convert_to_tensor(tensor)),
    ops=SimpleNamespace(
        sin=tf.sin, cos=tf.cos, exp=tf.exp, tanh=tf.tanh, sqrt=tf.sqrt, abs=tf.abs, relu=tf.nn.relu,
        sum=tf.reduce_sum, mean=tf.reduce_mean, where=tf.where, stack=tf.stack, concat=tf.concat, reshape=tf.reshape,
        argmax=tf.argmax, stop_gradient=tf.stop_gradient, conj=tf.math.conj, real=tf.math.real, matmul=tf.matmul,
        round=tf.round, cast=tf.cast, half=tf.float16, brain=tf.bfloat16, single=tf.float32, integer=tf.int32,
    ),
)  # fmt: skip
JAX = Framework(
    name="jax",
    tensor=lambda numbers, dtype="float32": jnp.asarray(numbers, dtype),
    numpy=_widened,
    ops=SimpleNamespace(
        sin=jnp.sin, cos=jnp.cos, exp=jnp.exp, tanh=jnp.tanh, sqrt=jnp.sqrt, abs=jnp.abs, relu=jax.nn.relu,
        sum=jnp.sum, mean=jnp.mean, where=jnp.where, stack=jnp.stack, concat=jnp.concatenate, reshape=jnp.reshape,
        argmax=jnp.argmax, stop_gradient=jax.lax.stop_gradient, conj=jnp.conj, real=jnp.real, matmul=jnp.matmul,
        round=jnp.round, cast=jnp.astype, half=jnp.float16, brain=jnp.bfloat16, single=jnp.float32, integer=jnp.int32,
    ),
    wide=lambda: jax.enable_x64(True),
)  # fmt: skip
FRAMEWORKS = {framework.name: framework for framework in (TORCH, TENSORFLOW, JAX)}

NUMPY = SimpleNamespace(
    sin=np.sin, cos=np.cos, exp=np.exp, tanh=np.tanh, sqrt=np.sqrt, abs=np.abs, relu=lambda x: np.maximum(x, 0),
    sum=np.sum, mean=np.mean, where=np.where, stack=np.stack, concat=np.concatenate, reshape=np.reshape,
    argmax=np.argmax, stop_gradient=np.copy, conj=np.conj, real=np.real, matmul=np.matmul, cast=lambda x, dtype: x,
    half=np.float16, brain=None, single=np.float32, integer=np.int32,
)  # fmt: skip
"""The operators in NumPy, which judges the expected numbers by finite differences."""


def close(found: Any, wanted: Any, tolerance: float) -> bool:
    """Are two results the same, in shape too, but for rounding?"""
    found, wanted = np.asarray(found), np.asarray(wanted)
    scale = max(1.0, float(np.abs(wanted.astype(complex)).max(initial=0.0)))
    return found.shape == wanted.shape and np.allclose(found, wanted, tolerance, tolerance * scale, equal_nan=True)
