"""A recurrent model of letters by lax.scan, or attention with a causal mask of -inf."""

import jax
import jax.numpy as jnp
import numpy as np

from trainings.planted import faults, grid
from trainings.with_jax import Training, optimizer_of

HEALTHY = grid(kind=["scan", "attention"], optimizer=["adam", "adamw"], batch=[2, 16])
FAULTY = faults("wrong_sign", "no_step", "zero_gradients", "not_finite", kind="scan") | {
    f"{name}, attention": one for name, one in faults("wrong_sign", "no_step", kind="attention").items()
}


def recurrent(params, h):
    """The states of a recurrent network."""

    def step(state, x):
        state = jnp.tanh(x @ params["in"] + state @ params["again"])
        return state, state

    _, states = jax.lax.scan(step, jnp.zeros((h.shape[0], 12)), h.swapaxes(0, 1))
    return states.swapaxes(0, 1)


def attended(params, h):
    """What each place has seen of those before it."""
    mask = jnp.where(jnp.tril(jnp.ones((h.shape[1],) * 2, bool)), 0.0, -jnp.inf)
    scores = (h @ params["in"]) @ (h @ params["again"]).swapaxes(1, 2) / 12**0.5 + mask
    return h + jax.nn.softmax(scores) @ h


def make(seed, kind, optimizer="adam", batch=8):
    generator = np.random.default_rng(seed)
    shapes = {"embed": (6, 12), "in": (12, 12), "again": (12, 12), "head": (12, 6)}
    params = {name: jnp.array(generator.normal(size=shape) * 0.3, jnp.float32) for name, shape in shapes.items()}
    follows = np.exp(2 * generator.normal(size=(6, 6)))
    follows = (follows / follows.sum(-1, keepdims=True)).cumsum(-1)

    def draw(step):
        words = [generator.integers(0, 6, batch)]
        for _ in range(8):
            words.append((generator.random((batch, 1)) > follows[words[-1]]).sum(-1).clip(0, 5))
        text = np.stack(words, 1).astype(np.int32)
        return text[:, :-1], text[:, 1:]

    def each(params, words, after):
        h = params["embed"][words]
        states = (recurrent if kind == "scan" else attended)(params, h)
        chances = jax.nn.log_softmax(states @ params["head"])
        return -jnp.take_along_axis(chances, after[..., None], -1)[..., 0].mean(-1)

    return Training(params, optimizer_of(optimizer, 5e-3), draw, each, steps=120)
