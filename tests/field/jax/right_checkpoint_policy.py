# from: https://docs.jax.dev/en/latest/gradient-checkpointing.html
# exit: 0
# never: got no gradient|exactly 0|useless|stop_gradient
"""Layers are computed again in the backward pass, all but the named values that a policy keeps."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

keep = jax.checkpoint_policies.save_only_these_names("mixed")


@partial(jax.checkpoint, policy=keep, static_argnums=(2,))
def layer(params, x, activation):
    mixed = checkpoint_name(x @ params["w"] + params["b"], "mixed")
    return x + activation(mixed)


def loss_of(stack, x):
    for params in stack:
        x = layer(params, x, jnp.sin)
    return jnp.mean((x - 1.0) ** 2)


stack = [{"w": 0.3 * jax.random.normal(jax.random.key(i), (4, 4)), "b": jnp.zeros(4)} for i in range(3)]
x = jax.random.normal(jax.random.key(9), (8, 4))
for turn in range(2):
    stack = jax.tree.map(lambda p, g: p - 0.1 * g, stack, jax.jit(jax.grad(loss_of))(stack, x))
print(stack[0]["b"])
