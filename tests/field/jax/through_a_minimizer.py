# from: https://docs.jax.dev/en/latest/_autosummary/jax.scipy.optimize.minimize.html
# exit: 3
# says: while_loop
# says: line 17, in best
# never: got a gradient
"""A rate is learnt through a minimizer, which runs in JAX's `while_loop`: that has no reverse mode, and JAX says so."""

import jax
import jax.numpy as jnp
from jax.scipy.optimize import minimize


def best(rate):
    def cost(x):
        return jnp.sum((x - rate) ** 2 + 0.1 * x**4)

    return minimize(cost, jnp.ones(2), method="BFGS").x


def loss_of(rate):
    return jnp.sum((best(rate) - 0.5) ** 2)


rate = jnp.array(2.0)
for step in range(2):
    rate = rate - 0.1 * jax.grad(loss_of)(rate)
print(rate)
