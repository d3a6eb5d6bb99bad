# from: own
# truth: healthy: a coupling layer whose scale begins at 0, and so does its effect
# kind: healthy
import jax
import jax.numpy as jnp


def negative(params, x):
    left, right = jnp.split(x, 2, axis=-1)
    hidden = jnp.tanh(left @ params["in"])
    scale, shift = jnp.tanh(hidden @ params["scale"]), hidden @ params["shift"]
    right = right * jnp.exp(scale) + shift
    density = -0.5 * jnp.sum(left**2, -1) - 0.5 * jnp.sum(right**2, -1)
    return -jnp.mean(density + scale.sum(-1))


key = jax.random.PRNGKey(0)
weights = {"in": jax.random.normal(key, (2, 8)), "scale": jnp.zeros((8, 2)), "shift": jnp.zeros((8, 2))}
PROBED = negative
GIVEN = weights, jax.random.normal(jax.random.PRNGKey(1), (19, 4)) * 2
