# from: https://docs.jax.dev/en/latest/notebooks/Custom_derivative_rules_for_Python_code.html
# exit: 0
# never: got no gradient|exactly 0|useless|stop_gradient|custom_vjp
"""Gradients are clipped in the middle of the network by a rule with options (`nondiff_argnums`)."""

from functools import partial

import jax
import jax.numpy as jnp


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def clipped(lowest, highest, x):
    return x


def forward(lowest, highest, x):
    return x, None


def backward(lowest, highest, _, g):
    return (jnp.clip(g, lowest, highest),)


clipped.defvjp(forward, backward)


def loss_of(params, x):
    h = clipped(-0.01, 0.01, jnp.tanh(x @ params["w"] + params["b"]))
    return jnp.mean((h @ params["v"] - 1.0) ** 2)


key = jax.random.key(0)
params = {"w": jax.random.normal(key, (3, 4)), "b": jnp.zeros(4), "v": jnp.ones(4) * 0.3}
x = jax.random.normal(jax.random.key(1), (8, 3))
step = jax.jit(jax.grad(loss_of))
for turn in range(2):
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, step(params, x))
print(params["b"])
