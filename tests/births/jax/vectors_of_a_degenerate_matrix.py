# from: https://github.com/jax-ml/jax/issues/4646
# ask: explain --nonfinite PROGRAM:loss_of m='[[4.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]'
# birth: backward
# name: m
# operands: 1.0, 1.0
import jax.numpy as jnp


def loss_of(m):
    values, vectors = jnp.linalg.eigh(m)  # <- here
    return jnp.sum(vectors[:, 2] * jnp.arange(3.0))
