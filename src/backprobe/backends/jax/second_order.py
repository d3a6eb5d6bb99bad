"""Hessian-vector products in JAX: the gradients of a probe are linearized with respect to perturbations of its
values.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from backprobe.backends.second_order import GradientProgram, Product, Vectors, refuse_vector


def hessian(program: GradientProgram) -> Product:
    """Return a function that multiplies the Hessian by vectors. All products use the same linear program."""
    zeros = {name: jnp.zeros_like(entry.grad) for name, entry in program.entries({}).items()}

    def gradients(shifts: Vectors) -> Vectors:
        found = program.entries(shifts)
        return {name: entry.grad for name, entry in found.items()}

    _, linear = jax.linearize(gradients, zeros)

    def product(vectors: Vectors) -> Vectors:
        made = zeros | {name: _as_vector(vector, zeros[name]) for name, vector in vectors.items()}
        found = linear(made)
        return {name: found[name] for name in vectors}

    return product


def _as_vector(vector: Any, like: Any) -> Any:
    try:
        made = jnp.asarray(vector, like.dtype)
    except (TypeError, ValueError):
        refuse_vector(vector, like.shape, None)
    if made.shape != like.shape:
        refuse_vector(vector, like.shape, made.shape)
    return made
