# from: https://docs.jax.dev/en/latest/_autosummary/jax.numpy.linalg.slogdet.html
# ask: explain --nonfinite PROGRAM:loss_of w='[[1.0, 2.0], [2.0, 4.0]]'
# birth: forward
# name: volume
# operands: determinant 0
import jax.numpy as jnp


def loss_of(w):
    mixed = w + 0.0
    sign, volume = jnp.linalg.slogdet(mixed)  # <- here
    return jnp.sum(mixed**2) - volume
