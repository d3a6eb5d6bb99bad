# from: own
# ask: python
"""Noise and constants made of a shape were never computed from what is differentiated; what is cut off was."""

import jax
import jax.numpy as jnp
from jax import lax, random

import backprobe as bp


def noise_for(x, key):
    return random.normal(key, x.shape)


def noisy(w, x, key):
    """A diffusion: noise in each step, and beside it two values that really are cut off."""

    def step(carry, key):
        eps = noise_for(carry, key)
        keep = random.bernoulli(key, 0.5, carry.shape).astype(carry.dtype)
        scale, low = jnp.ones_like(carry), (jnp.zeros(carry.shape), 0)
        cut = lax.stop_gradient(carry) * scale
        chosen = jax.nn.one_hot(jnp.argmax(carry), 3)
        return jnp.tanh(carry * w) + 0.1 * eps * keep + low[0] + cut + chosen, None

    noise = random.normal(key, x.shape)
    start = (jnp.zeros(x.shape), jnp.broadcast_to(0.5, jnp.shape(x)))
    held = lax.stop_gradient(x)
    doubled = held * 2.0
    number = jnp.asarray(x[0].item())
    last, _ = lax.scan(step, x + noise + start[0] + doubled + number, random.split(key, 4))
    return jnp.sum(last**2)


def root(a, x):
    """A solver by hand: its bounds and its tolerance are constants."""
    low, high = jnp.zeros(x.shape), jnp.full(x.shape, 10.0)
    tolerance = jnp.asarray([1e-6] * len(x), x.dtype)

    def step(carry, _):
        low, high = carry
        half = jnp.full(low.shape, 0.5)
        middle = half * (low + high)
        above = middle**2 > lax.stop_gradient(a * x) + 0 * tolerance
        return (jnp.where(above, low, middle), jnp.where(above, middle, high)), None

    (low, high), _ = lax.scan(step, (low, high), None, length=30)
    found = lax.stop_gradient((low + high) / 2)
    return jnp.sum(found - (found**2 - a * x) / (2 * found))


def newton(a, x):
    """A root with its derivative given."""

    def solve(f, start):
        return lax.while_loop(lambda s: s[1] < 9, lambda s: (s[0] - f(s[0]) / (3 * s[0] ** 2), s[1] + 1), (start, 0))[0]

    start = jnp.ones(x.shape)
    found = lax.custom_root(lambda y: y**3 - a * x, start, solve, lambda g, y: y / g(jnp.ones(y.shape)))
    return jnp.sum(found)


statuses = {name: str(entry.status) for name, entry in bp.probe(noisy)(jnp.ones(3), jnp.ones(3), random.key(0)).items()}
for name in ("noise", "start.0", "start.1", "/step:eps", "/step:keep", "/step:scale", "/step:low.0"):
    assert statuses[name] == "frozen", (name, statuses[name])
for name in ("held", "doubled", "number", "/step:cut", "/step:chosen"):
    assert statuses[name] == "detached", (name, statuses[name])
for program, frozen in ((root, ("low#0", "high#0", "tolerance", "/step:half")), (newton, ("start",))):
    recording = bp.probe(program)(jnp.asarray(2.0), jnp.asarray([1.0, 2.0]))
    for name in frozen:
        assert recording[name].status == "frozen", (name, recording[name].status)
    assert "detached" not in str(bp.explain(recording)) or program is root, bp.explain(recording)
recording = bp.probe(root)(jnp.asarray(2.0), jnp.asarray([1.0, 2.0]))
for name in ("found", "/step:carry.0", "/step:middle"):
    assert recording[name].status == "detached", (name, recording[name].status)
