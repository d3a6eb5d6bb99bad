# from: https://docs.jax.dev/en/latest/_autosummary/jax.nn.logsumexp.html
# ask: explain --nonfinite PROGRAM:loss_of scores='[[1.0, 2.0], [3.0, 4.0]]'
# birth: healthy
import jax
import jax.numpy as jnp


def loss_of(scores):
    moves = jnp.array([[0.0, -jnp.inf], [0.0, 0.0]])
    return jnp.sum(jax.nn.logsumexp(scores + moves, axis=1))
