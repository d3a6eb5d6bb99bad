# from: own
# ask: explain --nonfinite PROGRAM:loss_of a='[[1.0, 2.0], [2.0, 4.0]]' b='[1.0, 1.0]'
# birth: forward
# name: x
# operands: pivot 0
import jax.numpy as jnp


def loss_of(a, b):
    system = a * 2.0
    x = jnp.linalg.solve(system, b)  # <- here
    return jnp.sum(x**2)
