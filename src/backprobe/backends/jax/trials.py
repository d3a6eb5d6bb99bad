"""Runs a JAX program again for trials. Programs are pure functions, except for models of Flax NNX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from backprobe.backends.jax import models
from backprobe.backends.jax.arguments import is_pytree
from backprobe.backends.jax.tensors import is_array, is_floating
from backprobe.backends.trials import TrialRun, Trials
from backprobe.record.containers import leaves, refilled


class JaxTrials(Trials):
    """Implements ``Trials`` for JAX."""

    def given(self, leaf: Any) -> Any:
        is_numbers = isinstance(leaf, numpy.ndarray | numpy.generic) and leaf.dtype.kind in "iubfcV"
        return jnp.asarray(leaf) if is_numbers or isinstance(leaf, float) else leaf

    def is_varied(self, leaf: Any) -> bool:
        return is_array(leaf) and bool(jnp.issubdtype(leaf.dtype, jnp.floating))

    def alike(self, leaf: Any, numbers: Any) -> Any:
        return jnp.asarray(numpy.reshape(numbers, leaf.shape), leaf.dtype)

    def function(self, target: Any) -> Callable[..., Any]:
        """Return a function that calls the target. A Flax NNX model is rebuilt for each call, because the original
        cannot hold differentiated values.
        """
        kind = models.kind(target)
        if kind == "linen" and target.scope is None:
            return target.apply  # type: ignore[no-any-return]  # Flax has no types
        if kind != "nnx":
            return super().function(target)
        state, made_of = models.taken_apart(target)
        return lambda *args, **kwargs: made_of(jax.tree.map(lambda leaf: leaf, state))(*args, **kwargs)

    def total(self, result: Any) -> Any:
        return sum(jnp.sum(jnp.real(one) + jnp.imag(one)) for one in floating(result))

    def run(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> TrialRun:
        given = (tuple(args), dict(kwargs))
        varied = [leaf for _, leaf in leaves(given) if self.is_varied(leaf)]

        def of_varied(tensors: Sequence[Any]) -> Any:
            following = iter(tensors)
            args, kwargs = refilled(given, lambda leaf: next(following) if self.is_varied(leaf) else _anew(leaf))
            return floating(function(*args, **kwargs))

        results, back = jax.vjp(of_varied, varied)
        (gradients,) = back([jnp.ones(one.shape, one.dtype) for one in results])
        return TrialRun(results, gradients)


def _anew(leaf: Any) -> Any:
    # Return a new copy of a pytree, because a Flax NNX model created outside of this trace cannot be written to.
    return jax.tree.map(lambda one: one, leaf) if is_pytree(leaf) else leaf


def floating(result: Any) -> list[Any]:
    """Return the floating-point and complex arrays in the value that a program returned."""
    found = [leaf for _, one in leaves(result) for leaf in jax.tree.leaves(one)]
    return [*filter(is_floating, found)]
