# from: https://github.com/jax-ml/jax/issues/1052
# exit: 0
# never: got no gradient|useless|exactly 0|stop_gradient|NaN|Inf
"""`lax.cond` under `vmap` computes both branches; JAX keeps the operands of the one not taken out of the gradient."""

import jax
import jax.numpy as jnp
from jax import lax


def cost(params, count):
    def seen(count):
        return params["w"] * jnp.log(params["w"] * count) + params["b"]

    return lax.cond(count > 0, seen, lambda count: params["b"] ** 2 + 0.0 * count, count)


def loss_of(params, counts):
    return jnp.mean(jax.vmap(cost, (None, 0))(params, counts))


params, counts = {"w": jnp.array(0.7), "b": jnp.array(0.2)}, jnp.array([3.0, 0.0, 1.0, 2.0])
for step in range(3):
    loss, slopes = jax.value_and_grad(loss_of)(params, counts)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, slopes)
    print(float(loss), slopes)
