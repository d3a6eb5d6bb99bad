# from: https://github.com/jax-ml/jax/issues/29449
# ask: check PROGRAM:loss_of b='[1.0, -2.0]'
# exit: 1
# says: custom_linear_solve
# never: nothing in it was written by hand
# never: every derivative is right
import jax
import jax.numpy as jnp
from jax import lax

MATRIX = jnp.array([[4.0, 1.0], [-2.0, 3.0]])


def apply(v):
    return MATRIX @ v


def solved(_, b):
    return jnp.linalg.solve(MATRIX.astype(b.dtype), b)


def loss_of(b):
    x = lax.custom_linear_solve(apply, b, solve=solved, transpose_solve=solved)  # <- here
    return jnp.sum(x * jnp.array([1.0, 3.0]))


if __name__ == "__main__":
    b, h = jnp.array([1.0, -2.0]), jnp.array([1e-1, 0.0])
    print(jax.grad(loss_of)(b)[0], (loss_of(b + h) - loss_of(b - h)) / 2e-1)
