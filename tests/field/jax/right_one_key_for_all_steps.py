# from: https://github.com/google/flax/discussions/1620
# exit: 0
# never: got no gradient|useless|exactly 0|dead
"""Dropout draws the same mask at each step, since the key is not split: wasteful, but no gradient is missing."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax


class Net(eqx.Module):
    first: eqx.nn.Linear
    drop: eqx.nn.Dropout
    last: eqx.nn.Linear

    def __init__(self, key):
        one, other = jax.random.split(key)
        self.first, self.last = eqx.nn.Linear(3, 16, key=one), eqx.nn.Linear(16, 1, key=other)
        self.drop = eqx.nn.Dropout(0.2)

    def __call__(self, x, key):
        return self.last(self.drop(jnp.tanh(self.first(x)), key=key))


net, tx, key = Net(jax.random.key(0)), optax.sgd(0.05), jax.random.key(7)
state = tx.init(eqx.filter(net, eqx.is_inexact_array))
x = jax.random.normal(jax.random.key(1), (32, 3))


@eqx.filter_jit
def step(net, state, x, key):
    def loss_of(net):
        return jnp.mean((jax.vmap(net)(x, jax.random.split(key, 32)) - x.sum(1, keepdims=True)) ** 2)

    loss, gradients = eqx.filter_value_and_grad(loss_of)(net)
    updates, state = tx.update(gradients, state)
    return eqx.apply_updates(net, updates), state, loss


for turn in range(3):
    net, state, loss = step(net, state, x, key)
    print(float(loss))
