# from: https://github.com/jax-ml/jax/issues/21723
# ask: explain --nonfinite PROGRAM:loss_of x='[0.0, 0.0]'
# birth: healthy
import jax.numpy as jnp


def loss_of(x):
    squared = jnp.sum(x**2)
    return squared + jnp.sqrt(squared + 1e-6)
