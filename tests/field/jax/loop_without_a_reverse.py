# from: https://docs.jax.dev/en/latest/_autosummary/jax.lax.while_loop.html
# exit: 3
# says: while_loop
# says: line 21, in root
# never: got a gradient
"""Newton's method until it has converged: `while_loop` has no reverse mode, and JAX says so."""

import jax
import jax.numpy as jnp
from jax import lax


def root(a):
    def going(state):
        return jnp.abs(state[0] ** 2 - a) > 1e-6

    def improved(state):
        r, n = state
        return 0.5 * (r + a / r), n + 1

    return lax.while_loop(going, improved, (a, 0))[0]


def loss_of(a):
    return (root(a) - 1.5) ** 2


a = jnp.array(2.0)
for step in range(2):
    a = a - 0.1 * jax.grad(loss_of)(a)
print(a)
