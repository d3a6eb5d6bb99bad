# from: https://github.com/jax-ml/jax/discussions/13277
# ask: explain
# kind: none_from_backward
# name: drag
# missing: gradients["drag"]
# moves: params["drag"] = params["drag"] * 1.5
"""A simulator outside of JAX is called back, and its rule says that nothing flows."""

import jax
import jax.numpy as jnp
import numpy as np


def simulate(drag):
    path = np.zeros(5, np.float32)
    speed = 1.0
    for step in range(5):
        speed = speed * (1 - 0.1 * float(np.sum(drag)))
        path[step] = speed
    return path


@jax.custom_jvp
def trajectory(drag):
    return jax.pure_callback(simulate, jax.ShapeDtypeStruct((5,), jnp.float32), drag)


@trajectory.defjvp
def slope(primals, tangents):
    path = trajectory(*primals)
    return path, jnp.zeros_like(path)  # <- here


def loss_of(params, seen):
    path = trajectory(params["drag"])  # <- here
    return jnp.mean((path * params["gain"] - seen) ** 2)


params = {"drag": jnp.array([0.5, 0.7]), "gain": jnp.array(1.2)}
seen = jnp.linspace(1.0, 0.2, 5)
for step in range(2):
    loss, gradients = jax.value_and_grad(loss_of)(params, seen)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)
