# from: https://github.com/jax-ml/jax/discussions/9669
# exit: 0
# never: got no gradient|exactly 0|useless|stop_gradient
"""The whole training is one `lax.scan`: parameters and optimizer state are carried, gradients are taken inside."""

import jax
import jax.numpy as jnp
import optax
from jax import lax

tx = optax.adam(1e-2)
params = {"w": jax.random.normal(jax.random.key(0), (3, 1)), "b": jnp.zeros(1)}
x = jax.random.normal(jax.random.key(1), (20, 8, 3))
y = x.sum(-1, keepdims=True) + 1.0


def loss_of(params, x, y):
    return jnp.mean((x @ params["w"] + params["b"] - y) ** 2)


def step(carry, batch):
    params, state = carry
    loss, gradients = jax.value_and_grad(loss_of)(params, *batch)
    updates, state = tx.update(gradients, state)
    return (optax.apply_updates(params, updates), state), loss


@jax.jit
def train(params):
    return lax.scan(step, (params, tx.init(params)), (x, y))


(params, _), losses = train(params)
print(losses[-1])
