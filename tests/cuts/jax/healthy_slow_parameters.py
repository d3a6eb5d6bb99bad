# from: own
# ask: explain
# kind: healthy
"""Targets come from slow parameters, which are no argument of the gradient."""

import jax
import jax.numpy as jnp


def features(params, x):
    return jnp.tanh(x @ params["w"] + params["b"])


def loss_of(params, slow, x):
    view, other = x + 0.1, jnp.flip(x, 1)
    predicted = features(params, view) @ params["head"]
    wanted = jax.lax.stop_gradient(features(slow, other))
    return jnp.mean((predicted - wanted) ** 2)


one, two, three = jax.random.split(jax.random.key(0), 3)
params = {"w": jax.random.normal(one, (4, 5)), "b": jnp.zeros(5) + 0.1, "head": jax.random.normal(two, (5, 5))}
slow, x = params, jax.random.normal(three, (8, 4))
for step in range(3):
    loss, slopes = jax.value_and_grad(loss_of)(params, slow, x)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, slopes)
    slow = jax.tree.map(lambda s, p: 0.9 * s + 0.1 * p, slow, params)
