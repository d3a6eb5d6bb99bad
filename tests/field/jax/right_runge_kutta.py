# from: own
# ask: python
import jax.numpy as jnp
from jax import lax

import backprobe as bp

TABLEAU = jnp.array([[0.0, 0.0], [0.5, 0.0]])
WEIGHTS = jnp.array([0.0, 1.0])


def decay(t, y, rate):
    return -rate * y


def integrated(y0, rate):
    dt = 0.1

    def step(y, n):
        t = n * dt
        k1 = decay(t, y, rate)
        k2 = decay(t + 0.5 * dt, y + dt * TABLEAU[1, 0] * k1, rate)
        y = y + dt * (WEIGHTS[0] * k1 + WEIGHTS[1] * k2)
        return y, None

    y, _ = lax.scan(step, y0, jnp.arange(10.0))
    return y


rec = bp.probe(integrated)(1.0, 2.0)
wrong = {name: entry.reason for name, entry in rec.items() if str(entry.status) == "detached"}
assert not wrong, wrong
assert bp.explain(rec).ok, str(bp.explain(rec))
assert abs(float(rec["y0"].grad) - (1 - 0.2 + 0.02) ** 10) < 1e-5
