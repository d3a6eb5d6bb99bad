# from: https://docs.jax.dev/en/latest/_autosummary/jax.pmap.html
# exit: 0
# never: got no gradient|useless|exactly 0|unused
"""Data parallelism by `pmap`, as it should be, with replicated parameters and state."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
from functools import partial  # noqa: E402

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import optax  # noqa: E402

tx = optax.sgd(0.1, momentum=0.9)


def loss_of(params, x, y):
    return jnp.mean((jnp.tanh(x @ params["w"] + params["b"]) - y) ** 2)


@partial(jax.pmap, axis_name="batch")
def step(params, state, x, y):
    loss, gradients = jax.value_and_grad(loss_of)(params, x, y)
    gradients = jax.lax.pmean(gradients, axis_name="batch")
    updates, state = tx.update(gradients, state)
    return optax.apply_updates(params, updates), state, jax.lax.pmean(loss, "batch")


def twice(tree):
    return jax.tree.map(lambda each: jnp.stack([each, each]), tree)


params = {"w": jnp.array([0.1, -0.1, 0.2]), "b": jnp.array(0.0)}
params, state = twice(params), twice(tx.init(params))
x = jax.random.normal(jax.random.key(0), (2, 8, 3))
for turn in range(2):
    params, state, loss = step(params, state, x, x.sum(-1))
    print(float(loss[0]))
