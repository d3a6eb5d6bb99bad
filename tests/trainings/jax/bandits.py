"""Policy gradients on drawn rewards, with a baseline: the loss is no measure of progress."""

import jax
import jax.numpy as jnp
import numpy as np

from trainings.planted import Fault, grid
from trainings.with_jax import Training, layers, optimizer_of

HEALTHY = grid(baseline=[False, True], batch=[4, 32], optimizer=["adam", "sgd"])
FAULTY = {"no step": {"fault": Fault("no_step")}, "zero": {"fault": Fault("zero_gradients")}}


def make(seed, baseline=True, batch=32, optimizer="adam"):
    generator = np.random.default_rng(seed)
    params, worth = layers(generator, 4, 12, 3), generator.normal(size=(4, 3))

    def draw(step):
        state = generator.normal(size=(batch, 4))
        action = generator.integers(0, 3, batch)
        reward = (state @ worth)[np.arange(batch), action] + 0.5 * generator.normal(size=batch)
        reward = reward - reward.mean() if baseline else reward
        return state.astype(np.float32), action.astype(np.int32), reward.astype(np.float32)

    def each(params, state, action, reward):
        hidden = jnp.tanh(state @ params["layer0"]["w"] + params["layer0"]["b"])
        chances = jax.nn.log_softmax(hidden @ params["layer1"]["w"] + params["layer1"]["b"])
        chosen = jnp.take_along_axis(chances, action[:, None], -1)[:, 0]
        ratio = jnp.exp(jnp.clip(chosen - jnp.log(1 / 3), -1.0, 1.0))
        entropy = -(jnp.exp(chances) * chances).sum(-1)
        return -ratio * reward - 0.01 * entropy

    return Training(params, optimizer_of(optimizer), draw, each)
