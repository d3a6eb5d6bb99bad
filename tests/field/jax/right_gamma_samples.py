# from: https://docs.jax.dev/en/latest/_autosummary/jax.random.gamma.html
# exit: 0
# never: got no gradient|cuts|useless|sample
"""Samples of a gamma distribution have derivatives with respect to its shape, unlike most random draws."""

import jax
import jax.numpy as jnp

params = {"log_shape": jnp.array([0.3, -0.2]), "log_rate": jnp.array([0.1, 0.4])}


def loss_of(params, key):
    shape, rate = jnp.exp(params["log_shape"]), jnp.exp(params["log_rate"])
    drawn = jax.random.gamma(key, shape, (32, 2)) / rate
    share = jax.random.dirichlet(key, shape)
    return jnp.mean((drawn - 1.0) ** 2) + jnp.sum(share * jnp.array([0.2, 0.8]))


for key in jax.random.split(jax.random.key(0), 2):
    loss, gradients = jax.value_and_grad(loss_of)(params, key)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)
    print(float(loss))
