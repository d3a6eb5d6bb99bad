"""Trainings that were new to the rules when they were written: quantiles, and an ensemble under vmap."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from trainings.planted import Fault
from trainings.with_jax import Training, layers

HEALTHY = {"quantiles": {"kind": "quantiles"}, "ensemble, warm restarts": {"kind": "ensemble"}}
FAULTY = {
    "quantiles, wrong sign": {"kind": "quantiles", "fault": Fault("wrong_sign", 0)},
    "ensemble, rate rises": {"kind": "ensemble", "fault": Fault("learning_rate", size=300.0)},
}
LEVELS = np.array([0.1, 0.5, 0.9], np.float32)


def make(seed, kind):
    generator = np.random.default_rng(seed)

    def draw(step):
        x = generator.normal(size=(32, 3))
        y = np.sin(x.sum(-1)) + (0.2 + 0.3 * np.abs(x[:, 0])) * generator.normal(size=32)
        return x.astype(np.float32), y.astype(np.float32)

    if kind == "quantiles":
        return Training(layers(generator, 3, 32, 3), optax.adam(3e-3), draw, of_quantiles)
    members = [layers(generator, 3, 16, 1) for _ in range(4)]
    rates = optax.sgdr_schedule([{"init_value": 1e-3, "peak_value": 5e-3, "warmup_steps": 5, "decay_steps": 50}] * 4)
    return Training(jax.tree.map(lambda *each: jnp.stack(each), *members), optax.adam(rates), draw, of_ensemble)


def scores(params, x):
    h = jax.nn.relu(x @ params["layer0"]["w"] + params["layer0"]["b"])
    return h @ params["layer1"]["w"] + params["layer1"]["b"]


def of_quantiles(params, x, y):
    over = y[:, None] - scores(params, x)
    return jnp.maximum(LEVELS * over, (LEVELS - 1) * over).mean(-1)


def of_ensemble(params, x, y):
    found = jax.vmap(scores, (0, None))(params, x)[..., 0]
    return jnp.square(found - y).mean(0)
