# from: https://docs.jax.dev/en/latest/_autosummary/jax.lax.stop_gradient.html
# exit: 1
# says: encoder_head
# says: stop_gradient
# never: decoder\S* (?:gets|got) no
"""The encoder is frozen by the beginning of its names, which is the beginning of the head's name too."""

import jax
import jax.numpy as jnp
from jax import lax

keys = iter(jax.random.split(jax.random.key(0), 4))
params = {
    "encoder": {"kernel": jax.random.normal(next(keys), (3, 6)), "bias": jnp.zeros(6)},
    "encoder_head": {"kernel": jax.random.normal(next(keys), (6, 4))},
    "decoder": {"kernel": jax.random.normal(next(keys), (4, 1))},
}
x = jax.random.normal(next(keys), (16, 3))


def frozen(params, prefix):
    def stopped(path, leaf):
        return lax.stop_gradient(leaf) if path[0].key.startswith(prefix) else leaf  # <- here

    return jax.tree_util.tree_map_with_path(stopped, params)


def loss_of(params, x):
    p = frozen(params, "encoder")
    h = jnp.tanh(x @ p["encoder"]["kernel"] + p["encoder"]["bias"])
    return jnp.mean((jnp.tanh(h @ p["encoder_head"]["kernel"]) @ p["decoder"]["kernel"] - 1.0) ** 2)


@jax.jit
def step(params, x):
    gradients = jax.grad(loss_of)(params, x)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)


for turn in range(2):
    params = step(params, x)
