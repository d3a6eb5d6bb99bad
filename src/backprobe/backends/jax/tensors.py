"""Recognises and describes arrays of JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from backprobe.backends.facts import Description


def is_array(value: Any) -> bool:
    """Is the value a JAX array of numbers? An array of random keys is not."""
    return isinstance(value, jax.Array) and not jnp.issubdtype(value.dtype, jax.dtypes.extended)


def is_floating(value: Any) -> bool:
    """Is the value an array of floating-point or complex numbers?"""
    return isinstance(value, jax.Array) and bool(jnp.issubdtype(value.dtype, jnp.inexact))


def describe(tensor: Any) -> Description:
    device = "traced" if isinstance(tensor, jax.core.Tracer) else ", ".join(sorted(map(str, tensor.devices())))
    return Description(tuple(tensor.shape), str(tensor.dtype), device)
