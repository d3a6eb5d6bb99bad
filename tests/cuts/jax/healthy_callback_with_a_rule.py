# from: https://docs.jax.dev/en/latest/external-callbacks.html
# ask: explain
# kind: healthy
"""A function of NumPy is called back, and its slope is another such call."""

import jax
import jax.numpy as jnp
import numpy as np


def on_the_host(function, x):
    return jax.pure_callback(lambda rows: np.asarray(function(np.asarray(rows)), np.float32), x, x)


@jax.custom_vjp
def host_sine(x):
    return on_the_host(np.sin, x)


def forward(x):
    return host_sine(x), on_the_host(np.cos, x)


def backward(slope, upstream):
    return (upstream * slope,)


host_sine.defvjp(forward, backward)


def loss_of(params, x, y):
    return jnp.mean((host_sine(x * params["pitch"]) * params["gain"] - y) ** 2)


params, x = {"pitch": jnp.array(1.3), "gain": jnp.array(0.8)}, jnp.linspace(0.0, 3.0, 12)
y = jnp.sin(2 * x)
for step in range(3):
    loss, slopes = jax.value_and_grad(loss_of)(params, x, y)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, slopes)
