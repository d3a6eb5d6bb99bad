# from: own
# truth: predictions keep their last dimension, and the returns have none
# kind: outer product
import jax
import jax.numpy as jnp


def loss(params, states, returns):
    hidden = jnp.tanh(states @ params["in"])
    value = hidden @ params["out"] + params["bias"]
    return jnp.mean((returns - value) ** 2)  # <- here


keys = jax.random.split(jax.random.PRNGKey(0), 4)
weights = {"in": jax.random.normal(keys[0], (4, 8)), "out": jax.random.normal(keys[1], (8, 1)), "bias": jnp.zeros(1)}
PROBED = loss
GIVEN = weights, jax.random.normal(keys[2], (20, 4)), jax.random.normal(keys[3], (20,))
