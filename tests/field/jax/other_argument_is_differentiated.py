# from: https://github.com/jax-ml/jax/issues/1575
# ask: explain PROGRAM:step weights='[0.5, -0.2]' x='[1.0, 2.0]'
# never: every|stop_gradient
"""`jax.grad` takes the first argument, which is the data here: asked as a function, nothing in it is cut."""

import jax
import jax.numpy as jnp


def loss_of(x, weights):
    return jnp.sum((x * weights - 1.0) ** 2)


def step(weights, x):
    slope = jax.grad(loss_of)(x, weights)
    return jnp.sum(weights - 0.1 * slope)
