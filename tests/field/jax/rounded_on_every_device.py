# from: https://docs.jax.dev/en/latest/_autosummary/jax.pmap.html
# exit: 1
# says: levels
# says: round
# never: all \d+ parameters got a gradient$
"""Data parallelism by `pmap`: the levels are rounded inside of it, and have no slope on any device."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
from functools import partial  # noqa: E402

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402


def loss_of(params, x):
    levels = jnp.round(4 * params["levels"])  # <- here
    return jnp.mean((x @ params["w"] + levels / 4 - 1.0) ** 2)


@partial(jax.pmap, axis_name="device", in_axes=(None, 0), out_axes=None)
def step(params, x):
    gradients = jax.lax.pmean(jax.grad(loss_of)(params, x), "device")
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)


params = {"w": jnp.zeros(3), "levels": jnp.array(0.3)}
x = jax.random.normal(jax.random.key(0), (2, 8, 3))
for turn in range(2):
    params = step(params, x)
    print(params)
