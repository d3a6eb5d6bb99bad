# from: https://github.com/jax-ml/jax/issues/2663
# exit: 3
# says: int32
# says: line \d+, in <module> gradients = 
# never: got a gradient
"""The parameters are written as whole numbers, and `grad` refuses them."""

import jax
import jax.numpy as jnp

params = {"slope": jnp.array([1, 2]), "offset": jnp.array(0.5)}
x = jnp.array([[1.0, 2.0], [0.5, -1.0]])


def loss_of(params, x):
    return jnp.mean((x @ params["slope"] + params["offset"]) ** 2)


for turn in range(2):
    gradients = jax.grad(loss_of)(params, x)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)
