"""A regression by a small network in JAX: batch sizes from 1 and several optimizers."""

import jax.numpy as jnp
import numpy as np

from trainings.planted import faults, grid
from trainings.with_jax import Training, layers, optimizer_of

HEALTHY = grid(optimizer=["sgd", "momentum", "adam", "adamw", "lion", "cosine"], batch=[1, 4, 32])
KINDS = "learning_rate", "wrong_sign", "no_step", "zero_gradients", "cancelling", "outlier", "dead", "not_finite"
FAULTY = faults(*KINDS) | {
    f"{name}, adam": one for name, one in faults(*KINDS[:4], optimizer="adam", rise=300.0).items()
}


def make(seed, optimizer="sgd", batch=16):
    generator = np.random.default_rng(seed)
    params, weights = layers(generator, 5, 16, 1), generator.normal(size=(5, 1))

    def draw(step):
        x = generator.normal(size=(batch, 5))
        y = np.tanh(x @ weights) + 0.1 * generator.normal(size=(batch, 1))
        return x.astype(np.float32), y.astype(np.float32)

    def each(params, x, y):
        before = x @ params["layer0"]["w"] + params["layer0"]["b"]
        hidden = jnp.maximum(before, 0.0)
        predicted = hidden @ params["layer1"]["w"] + params["layer1"]["b"]
        return jnp.mean((predicted - y) ** 2, -1)

    training = Training(params, optimizer_of(optimizer), draw, each)
    training.plant["dead"] = lambda params: {**params, "layer0": {**params["layer0"], "b": jnp.full(16, -50.0)}}
    return training
