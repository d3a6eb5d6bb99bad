# from: https://docs.jax.dev/en/latest/faq.html
# exit: 3
# says: deleted
# says: moved = jnp\.abs\(new\["w"\] \- params\["w"\]\)\.max\(\)
# never: got a gradient
"""The step donates its parameters, and the old ones are read afterwards: their memory is no longer theirs."""

from functools import partial

import jax
import jax.numpy as jnp

params = {"w": jax.random.normal(jax.random.key(0), (3, 1))}
x = jax.random.normal(jax.random.key(1), (8, 3))


@partial(jax.jit, donate_argnums=0)
def step(params, x):
    gradients = jax.grad(lambda p: jnp.mean((x @ p["w"] - 1.0) ** 2))(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)


for turn in range(2):
    new = step(params, x)
    moved = jnp.abs(new["w"] - params["w"]).max()
    print(float(moved))
    params = new
