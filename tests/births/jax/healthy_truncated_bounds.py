# from: own
# ask: explain --nonfinite PROGRAM:loss_of x='[0.5, -2.0, 3.0]'
# birth: healthy
import jax.numpy as jnp


def loss_of(x):
    low, high = jnp.array([0.0, -jnp.inf, -jnp.inf]), jnp.array([1.0, 0.0, jnp.inf])
    return jnp.sum(jnp.clip(x, low, high) ** 2)
