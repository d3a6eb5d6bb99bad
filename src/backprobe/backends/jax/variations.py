"""Variations of JAX's arrays, and of models that are pytrees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from backprobe.backends.held_values import held_by
from backprobe.backends.jax.models import kind, random_state, taken_apart
from backprobe.backends.moved import moved
from backprobe.backends.random_states import OF_PYTHON, generators_of_numpy, put_back
from backprobe.backends.variations import Variation, Variations, no_dtype
from backprobe.record.containers import leaves


class JaxVariations(Variations):
    """JAX's ``Variations``. A model of Flax Linen holds no numbers: its parameters are arguments."""

    @contextmanager
    def same_numbers(self, target: Any = None, given: Any = ()) -> Iterator[None]:
        held = [*held_by(target), *(leaf for _, leaf in leaves(given))]
        states = [random_state(one) for one in {id(one): one for one in held}.values() if kind(one) == "nnx"]
        with put_back((*OF_PYTHON, *generators_of_numpy(target, given), *states)):
            yield

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
    try:
        found = jnp.dtype(name)
    except TypeError:
        found = None
    if found is not None and jnp.issubdtype(found, jnp.floating):
        return found
    raise no_dtype("JAX", name)
