# from: own
# truth: healthy: a small network of equinox, mapped over the batch
# kind: healthy
import equinox as eqx
import jax
import jax.numpy as jnp

model = eqx.nn.MLP(3, 1, 8, 2, key=jax.random.PRNGKey(0))
x, y = jax.random.normal(jax.random.PRNGKey(1), (16, 3)), jax.random.normal(jax.random.PRNGKey(2), (16,))


def loss(model, x, y):
    return jnp.mean((jax.vmap(model)(x)[:, 0] - y) ** 2)


PROBED = loss
GIVEN = model, x, y
