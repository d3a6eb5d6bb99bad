# from: https://github.com/google-deepmind/weathernext/issues/118
# exit: 1
# says: step|updates|apply_updates|optimizer
"""Gradients and updates are computed in every turn, and the parameters are those of the beginning."""

import jax
import jax.numpy as jnp
import optax

key = jax.random.PRNGKey(0)
first, second = jax.random.split(key)
params = {"w": 0.3 * jax.random.normal(first, (4, 8)), "v": 0.3 * jax.random.normal(second, (8, 1))}
optimizer = optax.adam(1e-2)
state = optimizer.init(params)
x = jax.random.normal(key, (16, 4))
y = x[:, :1] * x[:, 1:2]


def predict(params, x):
    return jnp.tanh(x @ params["w"]) @ params["v"]


def loss_of(params, x, y):
    return jnp.mean((predict(params, x) - y) ** 2)


grads_of = jax.jit(jax.value_and_grad(loss_of))
for step in range(4):
    loss, grads = grads_of(params, x, y)
    updates, state = optimizer.update(grads, state, params)
    optax.apply_updates(params, updates)  # <- here
    print(step, float(loss))
