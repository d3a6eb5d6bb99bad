# from: https://docs.jax.dev/en/latest/notebooks/Custom_derivative_rules_for_Python_code.html
# ask: check PROGRAM:loss_of x='[0.3, -0.7]'
# exit: 1
# says: soft
# never: all .* agree
"""A rule that has an option (`nondiff_argnums`) forgets it in its derivative."""

from functools import partial

import jax
import jax.numpy as jnp


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def soft(x, sharpness):
    return jnp.tanh(sharpness * x)


def forward(x, sharpness):
    y = jnp.tanh(sharpness * x)
    return y, y


def backward(sharpness, y, g):
    return (g * (1.0 - y**2),)


soft.defvjp(forward, backward)


def loss_of(x):
    h = soft(x, 3.0)  # <- here
    return jnp.sum(h**2)
