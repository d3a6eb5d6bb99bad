"""In JAX: the gradient of every value by name, and the line where one is cut off."""

import jax
import jax.numpy as jnp

import backprobe as bp


def loss(w, x, y):
    hidden = jnp.tanh(x @ w)
    target = jax.lax.stop_gradient(hidden * 2)
    error = hidden - target - y
    return error**2


w, x, y = jnp.array([0.5, -0.25]), jnp.array([1.0, 2.0]), jnp.array(1.0)
rec = bp.probe(loss)(w, x, y)

print(rec)
print(bp.explain(rec, "target"))
print("as jax.grad has it:", bool(jnp.allclose(rec["w"].grad, jax.grad(loss)(w, x, y))))
