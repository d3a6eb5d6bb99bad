"""A training of JAX on eight devices of this machine, watched, beside the same on one: the fields that differ.

Run by ``test_watch_jax.py``, with ``XLA_FLAGS=--xla_force_host_platform_device_count=8``.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import backprobe as bp


def layer(w, b, h):
    z = h @ w + b
    return jnp.tanh(z)


def loss_fn(params, x, y):
    h = layer(params["w1"], params["b1"], x)
    out = h @ params["w2"]
    return ((out - y) ** 2).mean()


def train(folder, placed, steps=2):
    keys = jax.random.split(jax.random.key(0), 4)
    params = {"w1": jax.random.normal(keys[0], (96, 128)) / 9, "b1": jnp.zeros(128)}
    params = placed(params | {"w2": jax.random.normal(keys[1], (128, 8)) / 9})
    with bp.watch_function(loss_fn, folder) as run:

        @jax.jit
        def step(params, x, y):
            (loss, stats), grads = run.value_and_grad(params, x, y)
            updates = jax.tree.map(lambda one: -0.1 * one, grads)
            return loss, stats, jax.tree.map(jnp.add, params, updates), updates

        for at in range(steps):
            x, y = jax.random.normal(jax.random.key(at), (64, 96)), jnp.full((64, 8), 0.5)
            loss, stats, params, updates = step(params, *placed({"x": x, "y": y}).values())
            run.record(stats, updates=updates)
            run.log(loss=loss)
    return params


def main(folder):
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
    specs = {"w1": (None, "model"), "b1": ("model",), "w2": ("model", None), "x": ("data",), "y": ("data",)}

    def sharded(tree):
        return {
            name: jax.device_put(one, NamedSharding(mesh, PartitionSpec(*specs[name]))) for name, one in tree.items()
        }

    train(folder / "one", lambda tree: tree)
    params = train(folder / "eight", sharded)
    print("devices", len(params["w1"].sharding.device_set))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
