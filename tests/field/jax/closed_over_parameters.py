# from: own
# exit: 1
# says: parameters
# says: 'params'
# never: all \d+ parameters got a gradient$
"""The loss reads the parameters of the module, and not those that it is given: every gradient is 0."""

import jax
import jax.numpy as jnp

x = jax.random.normal(jax.random.key(0), (16, 3))
y = x @ jnp.array([1.0, -2.0, 0.5])
parameters = {"w": jnp.zeros(3), "b": jnp.array(0.0)}


def loss_of(params, x, y):
    prediction = x @ parameters["w"] + parameters["b"]  # <- here
    return jnp.mean((prediction - y) ** 2)


for step in range(3):
    loss, gradients = jax.value_and_grad(loss_of)(parameters, x, y)
    parameters = jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients)
    print(step, float(loss))
