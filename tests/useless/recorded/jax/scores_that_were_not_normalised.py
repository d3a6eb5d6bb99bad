# from: own
# truth: the scores are picked without log_softmax before
# kind: not log-probabilities
import jax
import jax.numpy as jnp


def loss(params, tokens, following):
    states = jnp.tanh(params["embed"][tokens])
    scores = states @ params["out"]
    picked = jnp.take_along_axis(scores, following[:, None], axis=1)  # <- here
    return -picked.mean()  # <- here


keys = jax.random.split(jax.random.PRNGKey(0), 4)
weights = {"embed": jax.random.normal(keys[0], (30, 8)), "out": jax.random.normal(keys[1], (8, 30))}
PROBED = loss
GIVEN = weights, jax.random.randint(keys[2], (40,), 0, 30), jax.random.randint(keys[3], (40,), 0, 30)
