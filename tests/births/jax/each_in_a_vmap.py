# from: https://docs.jax.dev/en/latest/automatic-vectorization.html
# ask: explain --nonfinite PROGRAM:loss_of rows='[[1.0, 2.0], [3.0, 3.0]]'
# birth: forward
# name: scaled
# operands: 0.0 / 0.0
import jax
import jax.numpy as jnp


def scale(row):
    low, high = jnp.min(row), jnp.max(row)
    above, width = row - low, high - low
    scaled = above / width  # <- here
    return scaled


def loss_of(rows):
    h = jax.vmap(scale)(rows)  # <- here
    return jnp.sum(h**2)
