# from: https://github.com/jax-ml/jax/issues/2783
# exit: 3
# says: line \d+, in loss_of
# says: float
# never: got a gradient
"""`float` of the loss, within the function that is differentiated."""

import jax
import jax.numpy as jnp

w = jnp.array([0.5, -0.3, 0.8])
x = jax.random.normal(jax.random.key(0), (8, 3))


def loss_of(w):
    error = jnp.mean((x @ w - 1.0) ** 2)
    return float(error) + 0.01 * jnp.sum(w**2)


for turn in range(2):
    w = w - 0.1 * jax.grad(loss_of)(w)
