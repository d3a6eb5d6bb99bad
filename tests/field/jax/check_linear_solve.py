# from: own
# ask: check PROGRAM:f b=[1.0,2.0] --backend jax
# exit: 1
# says: f: 1 derivative is wrong
# says: its derivative in forward mode is right, and what runs backward is not the transpose of that
# never: nothing in it was written by hand
# The solver of the transposed system solves the system itself.
import jax
import jax.numpy as jnp

matrix = jnp.array([[2.0, 1.0], [0.0, 3.0]])


def solve(matvec, b):
    return jnp.linalg.solve(matrix, b)


def f(b):
    y = jax.lax.custom_linear_solve(lambda x: matrix @ x, b, solve, solve)  # <- here
    return (y * y).sum()
