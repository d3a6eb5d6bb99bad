# from: own
# exit: 1
# says: second
# never: all \d+ parameters got a gradient$
"""A Flax NNX model with two hidden layers, of which the call uses the first one twice."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx


class Net(nnx.Module):
    def __init__(self, rngs):
        self.first, self.second = nnx.Linear(4, 4, rngs=rngs), nnx.Linear(4, 4, rngs=rngs)
        self.head = nnx.Linear(4, 1, rngs=rngs)

    def __call__(self, x):
        x = nnx.tanh(self.first(x))
        x = nnx.tanh(self.first(x))
        return self.head(x)


model = Net(nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
x = jax.random.normal(jax.random.key(0), (16, 4))


@nnx.jit
def step(model, optimizer):
    loss, gradients = nnx.value_and_grad(lambda m: jnp.mean((m(x) - x.sum(1, keepdims=True)) ** 2))(model)
    optimizer.update(model, gradients)
    return loss


for turn in range(2):
    print(float(step(model, optimizer)))
