# from: https://github.com/jax-ml/jax/issues/26328
# ask: explain --nonfinite
# exit: 1
# says: table
# never: overflow|learning rate|Traceback
"""A masked place holds a number that is no row of the table: such a row is NaN, and a product with 0 keeps it."""

import jax
import jax.numpy as jnp
import optax

key = jax.random.PRNGKey(0)
params = {"table": jax.random.normal(key, (10, 4)), "out": jnp.full((4,), 0.1)}
words = jnp.array([[1, 4, 7, 12], [2, 9, 15, 12]])
real = (words < 10).astype(jnp.float32)
target = jnp.array([0.5, -0.5])
optimizer = optax.sgd(0.1)
state = optimizer.init(params)


def loss_of(params, words, real, target):
    rows = jnp.take(params["table"], words, axis=0)  # <- here
    kept = rows * real[..., None]
    pooled = kept.sum(axis=1) / real.sum(axis=1, keepdims=True)
    return jnp.mean((pooled @ params["out"] - target) ** 2)


for step in range(3):
    loss, grads = jax.value_and_grad(loss_of)(params, words, real, target)
    updates, state = optimizer.update(grads, state)
    params = optax.apply_updates(params, updates)
    print(float(loss))
