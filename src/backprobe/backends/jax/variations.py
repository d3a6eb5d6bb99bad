"""Varies JAX arrays, and models that are pytrees."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from backprobe.backends.jax.models import kind, taken_apart
from backprobe.backends.moved import moved
from backprobe.backends.variations import Variation, Variations, no_dtype


class JaxVariations(Variations):
    """Implements ``Variations`` for JAX. A Flax linen model holds no numbers, because its parameters are arguments."""

    def varied(self, value: Any, variation: Variation, number: int, undo: list[Callable[[], None]]) -> Any:
        if kind(value) in ("equinox", "nnx"):
            held, made_of = taken_apart(value)
            arrays, tree = jax.tree.flatten(held)
            varied = [self.varied(one, variation, 1000 * number + at, undo) for at, one in enumerate(arrays)]
            kept = [new if new is not None else old for new, old in zip(varied, arrays, strict=True)]
            return made_of(jax.tree.unflatten(tree, kept))
        if not isinstance(value, jax.Array | numpy.ndarray) or not jnp.issubdtype(value.dtype, jnp.floating):
            return None
        dtype = value.dtype if variation.dtype is None else _dtype(variation.dtype)
        return jnp.asarray(moved(numpy.asarray(value).astype(dtype), variation.seed, number))


def _dtype(name: str) -> Any:
    with suppress(TypeError):
        found = jnp.dtype(name)
        if jnp.issubdtype(found, jnp.floating):
            return found
    raise no_dtype("JAX", name)
