# from: https://github.com/sail-sg/jax_xc/pull/28
# ask: explain --nonfinite
# never: is born|NaN in|Inf in
"""Healthy: the branch that would divide by 0 is behind a `lax.cond`, and is not differentiated where it is not taken."""

import jax
import jax.numpy as jnp

params = {"scale": jnp.array(0.7), "shift": jnp.array([0.1, 0.2])}
density = jnp.array([0.0, 0.5, 1.5, 0.0])
target = jnp.array([0.0, 0.4, 1.0, 0.0])


def energy(params, rho):
    def present(rho):
        return params["scale"] * jnp.cbrt(rho) + params["shift"][0] * jnp.log(rho)

    return jax.lax.cond(rho > 1e-6, present, lambda rho: params["shift"][1] * rho, rho)


def loss_of(params):
    each = jnp.stack([energy(params, rho) for rho in density])
    return jnp.mean((each - target) ** 2)


for step in range(3):
    loss, grads = jax.value_and_grad(loss_of)(params)
    params = jax.tree.map(lambda value, slope: value - 0.1 * slope, params, grads)
    print(float(loss))
