# from: https://docs.jax.dev/en/latest/notebooks/Custom_derivative_rules_for_Python_code.html
# ask: check PROGRAM:loss_of x='[0.5, 1.5, -1.0]' w='[2.0, -0.5, 1.0]'
# exit: 1
# says: scaled
# never: every derivative is right
"""The backward of a rule written by hand gives the cotangents in the wrong order."""

import jax
import jax.numpy as jnp


@jax.custom_vjp
def scaled(x, w):
    return jnp.sin(x) * w


def forward(x, w):
    return scaled(x, w), (x, w)


def backward(saved, c):
    x, w = saved
    return c * jnp.sin(x), c * w * jnp.cos(x)


scaled.defvjp(forward, backward)


def loss_of(x, w):
    y = scaled(x, w)  # <- here
    return jnp.sum(y**2)
