# from: https://docs.jax.dev/en/latest/notebooks/Common_Gotchas_in_JAX.html
# ask: explain PROGRAM:loss_of x='[1.2, 3.4, 2.2]' w='[1.0, 2.0, 0.5]'
# kind: dropped
# name: x
# missing: x
# moves: no
import jax.numpy as jnp


def loss_of(x, w):
    state = w * w
    state.at[0].add(jnp.sum(jnp.sin(x)))  # <- here
    return jnp.sum(state**2)
