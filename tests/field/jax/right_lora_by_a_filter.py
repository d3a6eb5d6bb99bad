# from: https://flax.readthedocs.io/en/latest/api_reference/flax.nnx/nn/lora.html
# exit: 0
# never: got no gradient|useless|unused|never
"""LoRA in Flax NNX: only `nnx.LoRAParam` is differentiated, and one factor begins at zero."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx


class Net(nnx.Module):
    def __init__(self, rngs):
        self.base = nnx.Linear(4, 8, rngs=rngs)
        self.adapter = nnx.LoRA(4, 2, 8, rngs=rngs)
        self.head = nnx.Linear(8, 1, rngs=rngs)

    def __call__(self, x):
        return self.head(nnx.tanh(self.base(x) + self.adapter(x)))


model = Net(nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.LoRAParam)
x = jax.random.normal(jax.random.key(1), (16, 4))


@nnx.jit
def step(model, optimizer, x):
    def loss_of(model):
        return jnp.mean((model(x) - x.sum(1, keepdims=True)) ** 2)

    loss, gradients = nnx.value_and_grad(loss_of, argnums=nnx.DiffState(0, nnx.LoRAParam))(model)
    optimizer.update(model, gradients)
    return loss


for turn in range(3):
    print(float(step(model, optimizer, x)))
