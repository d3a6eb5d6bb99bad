# from: https://flax.readthedocs.io/en/latest/guides/flax_fundamentals/flax_basics.html
# ask: explain
# kind: healthy
import jax
import jax.numpy as jnp
from flax import linen as nn


class Layer(nn.Module):
    @nn.compact
    def __call__(self, x):
        shares = nn.softmax(nn.Dense(3, name="router")(x))
        self.sow("losses", "balance", 3.0 * jnp.sum(shares.mean(0) ** 2))
        each = nn.Dense(3, name="experts")(x)
        return jnp.sum(shares * each, -1)


def loss_of(params, x, y):
    predicted, kept = layer.apply({"params": params}, x, mutable=["losses"])
    return jnp.mean((predicted - y) ** 2) + 0.01 * sum(jax.tree.leaves(kept["losses"]))


layer = Layer()
x, y = jax.random.normal(jax.random.key(1), (6, 4)), jax.random.normal(jax.random.key(2), (6,))
params = layer.init(jax.random.key(0), x)["params"]
for step in range(3):
    loss, slopes = jax.value_and_grad(loss_of)(params, x, y)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, slopes)
