# from: own
# ask: explain
# kind: discrete
# name: inner
# missing: gradients["inner"]
# moves: params["inner"] = -params["inner"]
"""A table has the activations, and the one that was chosen is a step."""

import jax
import jax.numpy as jnp

ACTIVATIONS = {
    "smooth": jax.nn.silu,
    "spike": lambda v: jnp.heaviside(v - 0.1, 0.0),  # <- here
}


def loss_of(params, x, y, activation):
    current = x @ params["inner"]
    spikes = ACTIVATIONS[activation](current)  # <- here
    return jnp.mean((spikes @ params["outer"] - y) ** 2)


one, two, three, four = jax.random.split(jax.random.key(0), 4)
params = {"inner": jax.random.normal(one, (3, 5)), "outer": jax.random.normal(two, (5, 1))}
x, y = jax.random.normal(three, (8, 3)), jax.random.normal(four, (8, 1))
for step in range(2):
    loss, gradients = jax.value_and_grad(loss_of)(params, x, y, "spike")
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)
