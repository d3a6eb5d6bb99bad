# from: https://github.com/jax-ml/jax/issues/7510
# ask: explain
# exit: 0
# never: FloatingPointError|invalid value|NaN
"""A training under `jax_debug_nans` in which nothing is wrong: the unsafe branch gets a safe operand."""

import jax
import jax.numpy as jnp

jax.config.update("jax_debug_nans", True)
counts = jnp.array([0.0, 1.0, 4.0, 0.0])


@jax.jit
def loss_of(params, counts):
    rate = params["rate"] * counts
    safe = jnp.where(rate > 0, rate, 1.0)
    entropy = jnp.where(rate > 0, rate * jnp.log(safe), 0.0)
    return jnp.mean((entropy + params["bias"] - 1.0) ** 2)


params = {"rate": jnp.array(0.6), "bias": jnp.array(0.1)}
for step in range(3):
    loss, gradients = jax.value_and_grad(loss_of)(params, counts)
    params = jax.tree.map(lambda p, g: p - 0.05 * g, params, gradients)
    print(float(loss))
