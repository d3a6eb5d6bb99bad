# from: own
# ask: explain --nonfinite PROGRAM:loss_of q='[1.0, 2.5]' scale=0.5
# birth: forward
# name: series
# operands: 1.0
import jax.numpy as jnp
from jax.scipy.special import zeta


def loss_of(q, scale):
    series = zeta(1.0, q)  # <- here
    return jnp.sum(scale * series)
