"""Ratings as products of factors that begin near zero, of which few are used in a batch."""

import jax.numpy as jnp
import numpy as np

from trainings.planted import faults, grid
from trainings.with_jax import Training, optimizer_of

HEALTHY = grid(size=[0.02, 0.5], batch=[4, 32], optimizer=["adam", "momentum"])
FAULTY = faults("learning_rate", "no_step", "wrong_sign", "zero_gradients", rise=300.0, rate=0.03)


def make(seed, size=0.5, batch=32, optimizer="adam", rate=0.01):
    generator = np.random.default_rng(seed)
    params = {name: jnp.array(generator.normal(size=(30, 4)) * size, jnp.float32) for name in ("users", "films")}
    truth = generator.normal(size=(2, 30, 3))

    def draw(step):
        i, j = generator.integers(0, 30, (2, batch))
        fits = (truth[0, i] * truth[1, j]).sum(-1) + 0.2 * generator.normal(size=batch)
        return i.astype(np.int32), j.astype(np.int32), fits.astype(np.float32)

    def each(params, i, j, fits):
        left, right = params["users"][i], params["films"][j]
        return ((left * right).sum(-1) - fits) ** 2

    return Training(params, optimizer_of(optimizer, rate), draw, each)
