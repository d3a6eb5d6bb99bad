# from: own
# ask: explain --nonfinite
# exit: 1
# says: speed
# says: sqrt
# never: learning rate
"""The speed of the wind is not smooth where there is none: the first row of the field is at rest."""

import jax
import jax.numpy as jnp

wind = jnp.array([[0.0, 0.0], [1.0, 2.0], [-0.5, 0.3]])
drag = jnp.array([0.1, 0.2])


def power(params, wind):
    moved = wind * params
    speed = jnp.sqrt(moved[:, 0] ** 2 + moved[:, 1] ** 2)  # <- here
    return jnp.mean(speed**3)


for turn in range(2):
    slope = jax.grad(power)(drag, wind)
    drag = drag - 0.1 * slope
print(drag)
