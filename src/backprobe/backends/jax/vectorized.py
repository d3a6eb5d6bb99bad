"""Per-sample gradients in JAX, by ``jax.vmap`` of a probe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from backprobe.backends.jax import models
from backprobe.backends.vectorized import Gradients, SampleProgram, Vectorized


class JaxVectorized(Vectorized):
    """Implements ``Vectorized`` for JAX."""

    title = "jax.vmap"
    replaces = False

    def inside(self, target: Any) -> Any:
        held, whole = models.taken_apart(target)
        # Flax variables must be created at the trace level at which they are used
        return whole(jax.tree.map(lambda leaf: leaf, held))

    def gradients(self, program: SampleProgram, samples: Sequence[Any]) -> tuple[Any, Gradients]:
        def one(*sample: Any) -> tuple[Any, Gradients]:
            return program.gradients([part[None] for part in sample])

        losses, gradients = jax.vmap(one)(*samples)
        return losses, gradients

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, jax.Array)  # including random keys, one for each sample

    def tensor(self, value: Any) -> Any:
        return value if isinstance(value, jax.Array) else jnp.asarray(value)

    def stacked(self, tensors: Sequence[Any]) -> Any:
        return jnp.stack([*tensors])

    def joined(self, tensors: Sequence[Any]) -> Any:
        return jnp.concatenate([*tensors])

    def chosen(self, tensor: Any, at: Sequence[int]) -> Any:
        return tensor[numpy.asarray([*at], int)]

    def norms(self, gradients: Any) -> Any:
        rows = gradients.reshape(len(gradients), -1)
        return numpy.asarray(jnp.linalg.norm(rows.astype(_wide(rows)), axis=1), numpy.float64)

    def dots(self, gradients: Any, other: Any) -> Any:
        rows, kind = gradients.reshape(len(gradients), -1), _wide(gradients)
        return numpy.asarray((rows.astype(kind) @ other.reshape(-1).astype(kind).conj()).real, numpy.float64)

    def summed(self, gradients: Any, weights: Any) -> Any:
        (at,) = weights.nonzero()
        return jnp.tensordot(jnp.asarray(weights[at], gradients.dtype), self.chosen(gradients, at), axes=1)

    def scaled(self, gradients: Any, weights: Any) -> Any:
        return gradients * jnp.asarray(weights, gradients.dtype).reshape(-1, *[1] * (gradients.ndim - 1))

    def mark(self, tensor: Any) -> Any:
        return id(tensor)


def _wide(array: Any) -> Any:
    # Return a dtype that is wide enough for summing.
    return jnp.promote_types(array.dtype, jnp.float32)
