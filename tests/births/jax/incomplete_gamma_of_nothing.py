# from: https://github.com/jax-ml/jax/pull/2064
# ask: explain --nonfinite PROGRAM:loss_of x='[0.0, 1.0, 2.0]'
# birth: forward
# name: reached
# operands: 0.0, 0.0
import jax.numpy as jnp
from jax.scipy.special import gammainc


def loss_of(x):
    shape = jnp.array([0.0, 1.0, 2.0])
    reached = gammainc(shape, x)  # <- here
    return jnp.sum(reached)
