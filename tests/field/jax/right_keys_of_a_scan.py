# from: https://github.com/jax-ml/jax/issues/1052
# ask: explain --nonfinite
# exit: 0
# never: is born|NaN in|Inf in
"""A random walk in a scan with new-style keys, a dropout mask, and infinities that are only compared with."""

import jax
import jax.numpy as jnp
from jax import lax

params = {"drift": jnp.array([0.1, -0.2]), "spread": jnp.array(0.3)}


def loss_of(params, key):
    def turn(state, key):
        place, best = state
        first, second = jax.random.split(key)
        noise = jax.random.normal(first, (2,))
        kept = jax.random.bernoulli(second, 0.8, (2,))
        place = place + jnp.where(kept, params["drift"] + params["spread"] * noise, 0.0)
        return (place, jnp.minimum(best, jnp.sum(place**2))), place

    (place, best), path = lax.scan(turn, (jnp.zeros(2), jnp.inf), jax.random.split(key, 6))
    return jnp.mean(path**2) + jnp.sum((place - 1.0) ** 2) + 0.0 * best


for key in jax.random.split(jax.random.key(3), 2):
    loss, gradients = jax.value_and_grad(loss_of)(params, key)
    params = jax.tree.map(lambda p, g: p - 0.05 * g, params, gradients)
    print(float(loss))
