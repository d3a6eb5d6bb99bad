# from: https://github.com/patrick-kidger/equinox/issues/797
# ask: explain
# kind: same_numbers
# name: head.weight
# missing: gradients.head.weight
# moves: model = eqx.tree_at(lambda m: m.head.weight, model, model.head.weight * 1.5)
"""Only the stem should be frozen, and the filter takes all arrays of the model."""

import equinox as eqx
import jax
import jax.numpy as jnp

hold = jax.lax.stop_gradient


def frozen(tree):
    return jax.tree_util.tree_map(lambda leaf: hold(leaf) if eqx.is_array(leaf) else leaf, tree)  # <- here


class Model(eqx.Module):
    stem: eqx.nn.Linear
    head: eqx.nn.Linear
    bias: jax.Array

    def __init__(self, key):
        one, two = jax.random.split(key)
        self.stem, self.head = eqx.nn.Linear(3, 4, key=one), eqx.nn.Linear(4, 1, key=two)
        self.bias = jnp.zeros(1)

    def __call__(self, x):
        return self.head(jnp.tanh(self.stem(x)))


def loss_of(model, x, y):
    fixed = frozen(model)  # <- here
    predicted = jax.vmap(fixed)(x) + model.bias
    return jnp.mean((predicted - y) ** 2)


model = Model(jax.random.key(0))
x, y = jax.random.normal(jax.random.key(1), (6, 3)), jax.random.normal(jax.random.key(2), (6, 1))
for step in range(2):
    loss, gradients = eqx.filter_value_and_grad(loss_of)(model, x, y)
    model = eqx.apply_updates(model, jax.tree.map(lambda g: -0.1 * g, gradients))
