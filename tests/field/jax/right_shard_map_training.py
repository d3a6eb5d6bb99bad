# from: https://docs.jax.dev/en/latest/notebooks/shard_map.html
# exit: 0
# never: got no gradient|exactly 0|useless|stop_gradient
"""Data are shared by four devices with `shard_map`, and gradients are averaged by `pmean`."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
from functools import partial

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

mesh = jax.sharding.Mesh(jax.devices(), ("data",))
params = {"w": jax.random.normal(jax.random.key(0), (3, 5)) * 0.5, "v": jnp.ones((5, 1)) * 0.2}


@partial(jax.shard_map, mesh=mesh, in_specs=(P(), P("data"), P("data")), out_specs=P())
def mean_loss(params, x, y):
    return jax.lax.pmean(jnp.mean((jnp.tanh(x @ params["w"]) @ params["v"] - y) ** 2), "data")


@jax.jit
def step(params, x, y):
    loss, gradients = jax.value_and_grad(mean_loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), loss


x = jax.random.normal(jax.random.key(1), (16, 3))
for turn in range(2):
    params, loss = step(params, x, x.sum(1, keepdims=True))
    print(float(loss))
