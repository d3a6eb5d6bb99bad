# from: https://github.com/patrick-kidger/equinox/issues/31
# exit: 0
# never: got no gradient|useless|exactly 0|positions
"""An Equinox model that holds positions and a mask beside its weights: only what is floating is differentiated."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax


class Encoder(eqx.Module):
    table: jax.Array
    positions: jax.Array
    mask: jax.Array
    head: eqx.nn.Linear
    activation: callable = eqx.field(static=True)

    def __init__(self, key):
        first, second = jax.random.split(key)
        self.table = 0.1 * jax.random.normal(first, (10, 4))
        self.positions, self.mask = jnp.arange(5), jnp.array([True, True, True, False, True])
        self.head, self.activation = eqx.nn.Linear(4, 1, key=second), jnp.tanh

    def __call__(self, ids):
        rows = self.activation(self.table[ids] + 0.1 * self.table[self.positions])
        return self.head(jnp.where(self.mask[:, None], rows, 0.0).sum(0))


@eqx.filter_jit
def step(model, state, ids, y):
    def loss_of(model):
        return jnp.mean((jax.vmap(model)(ids)[:, 0] - y) ** 2)

    loss, gradients = eqx.filter_value_and_grad(loss_of)(model)
    updates, state = optimizer.update(gradients, state, eqx.filter(model, eqx.is_inexact_array))
    return eqx.apply_updates(model, updates), state, loss


model, optimizer = Encoder(jax.random.key(0)), optax.adam(1e-2)
state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))
ids = jax.random.randint(jax.random.key(1), (8, 5), 0, 10)
for turn in range(2):
    model, state, loss = step(model, state, ids, jnp.linspace(0.0, 1.0, 8))
    print(float(loss))
