# from: own
# exit: 1
# says: broadcasts \[16, 1\] and \[16\] to \[16, 16\]
# The network returns a column and the targets are a row: each prediction is compared with each target.
import jax
import jax.numpy as jnp
import optax
from flax import linen as nn


class Regression(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(1)(nn.relu(nn.Dense(8)(x)))


model, tx = Regression(), optax.sgd(1e-2)
x = jax.random.normal(jax.random.key(0), (16, 4))
y = x.sum(-1)
params = model.init(jax.random.key(1), x)
state = tx.init(params)


@jax.jit
def step(params, state):
    def loss_fn(params):
        pred = model.apply(params, x)
        return jnp.mean((pred - y) ** 2)  # <- here

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, state = tx.update(grads, state)
    return optax.apply_updates(params, updates), state, loss


for _ in range(3):
    params, state, loss = step(params, state)
