# from: https://github.com/dfm/tinygp/issues/48
# ask: explain --nonfinite PROGRAM:loss_of x='[0.0, 0.0, 1.0]' y='[1.0, -1.0, 0.5]'
# birth: forward
# name: factor
# operands: -0.1
import jax
import jax.numpy as jnp


def loss_of(x, y):
    noise = -0.1
    kernel = jnp.exp(-0.5 * (x[:, None] - x[None]) ** 2) + noise * jnp.eye(3)
    factor = jnp.linalg.cholesky(kernel)  # <- here
    z = jax.scipy.linalg.solve_triangular(factor, y, lower=True)
    return jnp.sum(z**2) + jnp.sum(jnp.log(jnp.diagonal(factor)))
