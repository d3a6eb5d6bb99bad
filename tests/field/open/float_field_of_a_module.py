# from: https://github.com/patrick-kidger/equinox/issues/189
# exit: 1
# says: temperature
# says: float
# never: all \d+ parameters got a gradient$
"""`eqx.filter_grad` differentiates arrays: a temperature that is a Python float stays as it is."""

import equinox as eqx
import jax
import jax.numpy as jnp


class Scaled(eqx.Module):
    linear: eqx.nn.Linear
    temperature: float

    def __init__(self, key):
        self.linear = eqx.nn.Linear(3, 2, key=key)
        self.temperature = 1.5  # <- here

    def __call__(self, x):
        return jax.nn.log_softmax(self.linear(x) / self.temperature)


@eqx.filter_value_and_grad
def loss_of(model, x, y):
    return -jnp.mean(jnp.take_along_axis(jax.vmap(model)(x), y[:, None], 1))


model = Scaled(jax.random.key(0))
x, y = jax.random.normal(jax.random.key(1), (12, 3)), jnp.arange(12) % 2
for step in range(2):
    loss, gradients = loss_of(model, x, y)
    model = eqx.apply_updates(model, jax.tree.map(lambda g: -0.1 * g, gradients))
print(gradients.temperature)
