# from: https://flax.readthedocs.io/en/latest/guides/flax_fundamentals/flax_basics.html
# ask: explain
# kind: dropped
# name: router
# missing: gradients["params"]["router"]["kernel"]
"""A balance loss is sown into a collection that `apply` is not asked to keep."""

import jax
import jax.numpy as jnp
from flax import linen as nn


class Layer(nn.Module):
    @nn.compact
    def __call__(self, x):
        shares = nn.softmax(nn.Dense(3, name="router")(x))
        balance = 3.0 * jnp.sum(shares.mean(0) ** 2)
        self.sow("losses", "balance", balance)  # <- here
        return nn.Dense(1, name="expert")(x)


def loss_of(variables, x, y):
    predicted = layer.apply(variables, x)  # <- here
    extra = jax.tree.leaves(variables.get("losses", {}))
    return jnp.mean((predicted - y) ** 2) + 0.01 * sum(jnp.sum(each) for each in extra)


layer = Layer()
x, y = jax.random.normal(jax.random.key(1), (6, 4)), jax.random.normal(jax.random.key(2), (6, 1))
variables = {"params": layer.init(jax.random.key(0), x)["params"]}
for step in range(2):
    loss, gradients = jax.value_and_grad(loss_of)(variables, x, y)
    variables = jax.tree.map(lambda p, g: p - 0.1 * g, variables, gradients)
