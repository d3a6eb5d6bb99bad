"""A classifier in JAX with layer norm or without, as deep as its settings say."""

import jax
import jax.numpy as jnp
import numpy as np

from trainings.planted import Fault, faults, grid
from trainings.with_jax import Training, layers, optimizer_of

HEALTHY = grid(depth=[2, 5], norm=[False, True], optimizer=["adam", "momentum"], batch=[4, 32])
FAULTY = faults("learning_rate", "wrong_sign", "no_step", "wrong_labels", "zero_gradients", rise=300.0) | {
    "small weights": {"depth": 12, "gain": 0.1, "fault": Fault("vanishing", 0)},
    "great weights": {"depth": 12, "gain": 5.0, "fault": Fault("exploding", 0)},
}


def make(seed, depth=2, norm=False, optimizer="adam", batch=16, gain=1.0):
    generator = np.random.default_rng(seed)
    params = layers(generator, 6, *[16] * depth, 3)
    params = jax.tree.map(lambda each: each * gain if each.ndim == 2 else each, params)
    weights = generator.normal(size=(6, 3))

    def draw(step):
        x = generator.normal(size=(batch, 6))
        return x.astype(np.float32), (x @ weights).argmax(-1).astype(np.int32)

    def each(params, x, y):
        h = x
        for i in range(depth):
            h = jax.nn.relu(h @ params[f"layer{i}"]["w"] + params[f"layer{i}"]["b"])
            if norm:
                h = (h - h.mean(-1, keepdims=True)) / jnp.sqrt(h.var(-1, keepdims=True) + 1e-5)
        scores = h @ params[f"layer{depth}"]["w"] + params[f"layer{depth}"]["b"]
        return -jnp.take_along_axis(jax.nn.log_softmax(scores), y[:, None], -1)[:, 0]

    return Training(params, optimizer_of(optimizer), draw, each)
