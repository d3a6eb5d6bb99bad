# from: https://github.com/google/flax/discussions/2043
# exit: 1
# says: h0
# says: stop_gradient
# never: every
"""The first state is learned, but the carry is stopped at each turn: only it gets nothing, the weights get a part."""

import jax
import jax.numpy as jnp
from jax import lax

params = {
    "h0": jnp.full(4, 0.1),
    "w": 0.3 * jax.random.normal(jax.random.key(0), (4, 4)),
    "u": 0.3 * jax.random.normal(jax.random.key(1), (2, 4)),
}
series = jax.random.normal(jax.random.key(2), (6, 2))


def loss_of(params, series):
    def cell(h, x):
        h = lax.stop_gradient(h)  # <- here
        h = jnp.tanh(h @ params["w"] + x @ params["u"])
        return h, h.sum()

    _, outs = lax.scan(cell, params["h0"], series)
    return jnp.mean((outs - 1.0) ** 2)


for turn in range(2):
    gradients = jax.grad(loss_of)(params, series)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)
print(gradients["h0"])
