# from: own
# ask: explain PROGRAM:loss_of x='[1.2, 3.4, 2.2]' w='[1.0, 2.0, 0.5]'
# kind: discrete
# name: x
# missing: x
from operator import methodcaller

import jax.numpy as jnp

as_steps = methodcaller("astype", jnp.int32)


def loss_of(x, w):
    level = x * 4.0
    steps = as_steps(level)  # <- here
    return jnp.sum((steps / 4.0 * w) ** 2)
