# from: https://github.com/google/flax/issues/4564
# exit: 1
# says: temperature
# says: nnx\.Param|Param
"""NNX differentiates what is an `nnx.Param`: the temperature is an `nnx.Variable`, and stays as it was."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx


class Scaled(nnx.Module):
    def __init__(self, rngs):
        self.linear = nnx.Linear(3, 2, rngs=rngs)
        self.temperature = nnx.Variable(jnp.array(1.5))  # <- here

    def __call__(self, x):
        return self.linear(x) / self.temperature[...]


model = Scaled(nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
x = jax.random.normal(jax.random.key(1), (12, 3))
y = jnp.arange(12) % 2


def loss_of(model, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(model(x), y).mean()


@nnx.jit
def step(model, optimizer, x, y):
    loss, gradients = nnx.value_and_grad(loss_of)(model, x, y)
    optimizer.update(model, gradients)
    return loss


for turn in range(2):
    print(float(step(model, optimizer, x, y)))
