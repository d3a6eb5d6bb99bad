# from: own
# ask: python PROGRAM
# says: right
"""A function with a jitted scan is probed: its names have the values and gradients of a plain call."""

import jax
import jax.numpy as jnp
from jax import lax

import backprobe as bp


@jax.jit
def rolled(w, series):
    def cell(h, x):
        h = jnp.tanh(w * h + x)
        return h, h

    last, _ = lax.scan(cell, jnp.zeros(()), series)
    return last


def loss_of(w, series):
    last = rolled(w, series)
    return (last - 0.5) ** 2


w, series = jnp.array(0.7), jnp.array([0.1, 0.4, -0.3])
plain = jax.grad(loss_of)(w, series)
rec = bp.probe(loss_of, wrt="w")(w, series)
assert jnp.allclose(rec["w"].grad, plain), (rec["w"].grad, plain)
assert jnp.allclose(rec["last"].grad, 2 * (rolled(w, series) - 0.5))
print("right")
