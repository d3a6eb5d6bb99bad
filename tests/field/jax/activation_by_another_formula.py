# from: https://github.com/jax-ml/jax/issues/4428
# ask: diff PROGRAM:reference PROGRAM:ported x='[[0.5, -1.5], [1.0, 2.0]]' w='[[0.3, -0.7], [1.1, 0.2]]'
# exit: 1
# says: gelu
# says: first
"""The port of a layer to JAX: its `gelu` is an approximation by default, and TensorFlow's is exact."""

import jax
import jax.numpy as jnp
import tensorflow as tf


def reference(x, w):
    h = tf.matmul(x, w)
    a = tf.nn.gelu(h)
    return tf.reduce_sum(a**2)


def ported(x, w):
    h = jnp.matmul(x, w)
    a = jax.nn.gelu(h)  # <- here
    return jnp.sum(a**2)
