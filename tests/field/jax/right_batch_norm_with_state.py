# from: https://docs.kidger.site/equinox/examples/stateful/
# exit: 0
# never: got no gradient|exactly 0|useless|stop_gradient
"""Equinox's BatchNorm carries its averages in a State, which no gradient goes through."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax


class Net(eqx.Module):
    first: eqx.nn.Linear
    norm: eqx.nn.BatchNorm
    last: eqx.nn.Linear

    def __init__(self, key):
        one, other = jax.random.split(key)
        self.first = eqx.nn.Linear(3, 6, use_bias=False, key=one)
        self.norm = eqx.nn.BatchNorm(6, axis_name="batch", mode="ema")
        self.last = eqx.nn.Linear(6, 1, key=other)

    def __call__(self, x, state):
        h, state = self.norm(self.first(x), state)
        return self.last(jnp.tanh(h)), state


net, state = eqx.nn.make_with_state(Net)(jax.random.key(0))
tx = optax.adam(1e-2)
moments = tx.init(eqx.filter(net, eqx.is_inexact_array))
x = jax.random.normal(jax.random.key(1), (16, 3))


def loss_of(net, state, x):
    out, state = jax.vmap(net, axis_name="batch", in_axes=(0, None), out_axes=(0, None))(x, state)
    return jnp.mean((out - x.sum(1, keepdims=True)) ** 2), state


@eqx.filter_jit
def step(net, state, moments, x):
    gradients, state = eqx.filter_grad(loss_of, has_aux=True)(net, state, x)
    updates, moments = tx.update(gradients, moments)
    return eqx.apply_updates(net, updates), state, moments


for turn in range(3):
    net, state, moments = step(net, state, moments, x)
