# from: https://github.com/jax-ml/jax/issues/475
# ask: explain --nonfinite
# exit: 1
# says: sqrt
# never: could not|unknown
"""`jax_debug_nans` raises at a NaN in the backward; what it was and where it was born is said all the same."""

import jax
import jax.numpy as jnp

jax.config.update("jax_debug_nans", True)


@jax.jit
def loss_of(points, target):
    difference = points - target
    distance = jnp.sqrt(jnp.sum(difference**2, -1))  # <- here
    return jnp.mean(distance)


points = jnp.array([[1.0, 2.0], [0.5, 0.5]])
target = jnp.array([[0.0, 1.0], [0.5, 0.5]])
for step in range(2):
    points = points - 0.1 * jax.grad(loss_of)(points, target)
print(points)
