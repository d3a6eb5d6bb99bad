"""Hessian-vector products in TensorFlow, by a tape around a probe whose values are perturbed."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from backprobe.backends.second_order import GradientProgram, Product, Vectors, refuse_vector
from backprobe.backends.tensorflow import tensors


def hessian(program: GradientProgram) -> Product:
    """Return a function that multiplies the Hessian by vectors. All products use the same persistent tape."""
    first = {name: tf.convert_to_tensor(entry.grad) for name, entry in program.entries({}).items()}
    variables = {name: tensors.variable_of(one) for name, one in program.variables.items()}
    shifts = {name: tf.zeros_like(gradient) for name, gradient in first.items() if name not in variables}
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(shifts)
        gradients = {name: tf.convert_to_tensor(entry.grad) for name, entry in program.entries(shifts).items()}

    def product(vectors: Vectors) -> Vectors:
        made = {name: _as_vector(vector, first[name]) for name, vector in vectors.items()}
        sources = {name: variables.get(name, shifts.get(name)) for name in made}
        found = tape.gradient(
            [gradients[name] for name in made],
            sources,
            output_gradients=[*made.values()],
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        return {name: tf.convert_to_tensor(one) for name, one in found.items()}

    return product


def _as_vector(vector: Any, like: Any) -> Any:
    shape = tuple(like.shape)
    try:
        made = tf.cast(tf.convert_to_tensor(vector), like.dtype)
    except (TypeError, ValueError, tf.errors.OpError):
        refuse_vector(vector, shape, None)
    if tuple(made.shape) != shape:
        refuse_vector(vector, shape, tuple(made.shape))
    return made
