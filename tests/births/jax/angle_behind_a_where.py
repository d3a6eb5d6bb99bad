# from: https://github.com/jax-ml/jax/issues/1052
# ask: explain --nonfinite PROGRAM:loss_of a='[3.0, 0.0, -5.0]'
# birth: backward
# name: a
# operands: 0.0, 0.0
import jax.numpy as jnp


def loss_of(a):
    angles = jnp.arctan2(a, a)  # <- here
    kept = jnp.where(a == 0, 0.0, angles)
    return jnp.sum(kept)
