# from: https://docs.jax.dev/en/latest/_autosummary/jax.nn.softmax.html
# ask: explain --nonfinite PROGRAM:loss_of q='[[1.0, 2.0], [0.5, 1.0]]' k='[[0.2, 0.1], [1.0, -1.0]]'
# birth: healthy
import jax
import jax.numpy as jnp


def loss_of(q, k):
    scores = jnp.where(jnp.tril(jnp.ones((2, 2), bool)), q @ k.T, -jnp.inf)
    return jnp.sum((jax.nn.softmax(scores) @ k) ** 2)
