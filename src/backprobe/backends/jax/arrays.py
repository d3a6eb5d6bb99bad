"""Implements ``Arrays`` for JAX: the arrays of a recording as data."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy

from backprobe.backends.jax import evaluation
from backprobe.backends.jax.tensors import describe, is_array
from backprobe.backends.numpy import HostArrays
from backprobe.backends.tensors import Arrays
from backprobe.errors import Unsupported


class JaxArrays(HostArrays):
    """Shows and saves arrays of JAX."""

    name = "jax"

    is_tensor = staticmethod(is_array)
    describe = staticmethod(describe)
    evaluate = staticmethod(evaluation.evaluate)

    def version(self, tensor: Any) -> int | None:
        return 0  # arrays are immutable

    weighted = Arrays.weighted  # the sum is computed in JAX, because traced values have no numbers

    def inner(self, cotangent: Any, tensor: Any) -> Any:
        return jnp.sum(jnp.conj(cotangent) * tensor).real

    def one(self, like: Any) -> Any:
        return jnp.ones((), like.real.dtype)

    def to_host(self, tensor: Any) -> Any:
        if isinstance(tensor, jax.core.Tracer):
            raise Unsupported(
                "a recording made inside jit has no numbers yet",
                asked="the numbers of a value",
                found=str(tensor),
                why="jax.jit traces the function that the probe is called in, and computes later",
                next="return what you need from the jitted function: rec['u'].grad",
            )
        return numpy.asarray(tensor)

    def from_host(self, array: Any, dtype: str) -> Any:
        return jnp.asarray(array, dtype)
