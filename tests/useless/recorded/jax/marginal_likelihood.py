# from: own
# truth: healthy: a covariance of all pairs, by None on both sides
# kind: healthy
import jax
import jax.numpy as jnp


def negative(length, noise, x, y):
    distance = jnp.sum((x[:, None] - x[None]) ** 2, axis=-1)
    covariance = jnp.exp(-0.5 * distance / jnp.exp(length)) + jnp.exp(noise) * jnp.eye(len(x))
    factor = jnp.linalg.cholesky(covariance)
    alpha = jax.scipy.linalg.cho_solve((factor, True), y)
    return 0.5 * y @ alpha + jnp.sum(jnp.log(jnp.diag(factor)))


x = jax.random.normal(jax.random.PRNGKey(0), (13, 2))
PROBED = negative
GIVEN = jnp.float32(0.1), jnp.float32(-1.0), x, jnp.sin(x[:, 0])
