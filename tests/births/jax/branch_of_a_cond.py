# from: https://docs.jax.dev/en/latest/_autosummary/jax.lax.cond.html
# ask: explain --nonfinite PROGRAM:loss_of x='[1.0, -1.0]' w='[2.0, 3.0]'
# birth: forward
# name: centred
# operands: 1.0 / 0.0
import jax
import jax.numpy as jnp


def by_mean(x):
    mean = jnp.mean(x)
    centred = x / mean  # <- here
    return centred


def loss_of(x, w):
    h = jax.lax.cond(x[0] > 0, by_mean, lambda x: x, x)  # <- here
    return jnp.sum(h * w)
