# from: own
# ask: python
import jax
import jax.numpy as jnp
from jax.experimental.ode import odeint

import backprobe as bp


def field(y, t, rate):
    slope = -rate * y
    return slope


def final(y0, rate):
    path = odeint(field, y0, jnp.array([0.0, 0.5, 1.0]), rate)
    return path[-1]


truth = jax.grad(final, 1)(1.0, 2.0)
rec = bp.probe(final)(1.0, 2.0)
assert abs(float(rec["rate"].grad - truth)) < 1e-5
said = " ".join(map(str, rec.notes))
assert any("field" in name for name in rec) or "field" in said or "odeint" in said, (list(rec), said)
