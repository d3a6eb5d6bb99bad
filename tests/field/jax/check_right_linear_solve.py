# from: https://github.com/jax-ml/jax/pull/1402
# ask: check PROGRAM:loss_of b='[1.0, -2.0]'
# never: wrong
import jax
import jax.numpy as jnp
from jax import lax

MATRIX = jnp.array([[4.0, 1.0], [-2.0, 3.0]])


def loss_of(b):
    x = lax.custom_linear_solve(
        lambda v: MATRIX @ v,
        b,
        solve=lambda _, r: jnp.linalg.solve(MATRIX.astype(r.dtype), r),
        transpose_solve=lambda _, r: jnp.linalg.solve(MATRIX.T.astype(r.dtype), r),
    )
    return jnp.sum(x * jnp.array([1.0, 3.0]))


if __name__ == "__main__":
    b, h = jnp.array([1.0, -2.0]), jnp.array([1e-1, 0.0])
    print(jax.grad(loss_of)(b)[0], (loss_of(b + h) - loss_of(b - h)) / 2e-1)
