# from: https://github.com/patrick-kidger/equinox/blob/main/docs/examples/train_rnn.ipynb
# truth: healthy: one output per sequence, taken as a scalar; predictions and targets are both [N]
# kind: healthy
import equinox as eqx
import jax
import jax.numpy as jnp
import optax


class Rnn(eqx.Module):
    cell: eqx.nn.GRUCell
    linear: eqx.nn.Linear
    bias: jax.Array

    def __init__(self, key):
        ckey, lkey = jax.random.split(key)
        self.cell = eqx.nn.GRUCell(2, 8, key=ckey)
        self.linear = eqx.nn.Linear(8, 1, use_bias=False, key=lkey)
        self.bias = jnp.zeros(1)

    def __call__(self, xs):
        out, _ = jax.lax.scan(lambda state, x: (self.cell(x, state), None), jnp.zeros(8), xs)
        return jax.nn.sigmoid(self.linear(out) + self.bias)[0]


t = jnp.linspace(0, 6.28, 10)
sign = jnp.where(jnp.arange(24) % 2 == 0, 1.0, -1.0)
phase = jax.random.uniform(jax.random.key(0), (24,)) * 6.28
xs = jnp.stack([jnp.sin(phase[:, None] + t), jnp.cos(phase[:, None] + sign[:, None] * t)], -1)
ys = (sign > 0).astype(jnp.float32)
model = Rnn(jax.random.key(1))


@eqx.filter_value_and_grad
def compute_loss(model, xs, ys):
    pred = jax.vmap(model)(xs)
    return -jnp.mean(ys * jnp.log(pred) + (1 - ys) * jnp.log(1 - pred))


optim = optax.adam(1e-2)
state = optim.init(eqx.filter(model, eqx.is_inexact_array))
for step in range(4):
    loss, grads = compute_loss(model, xs, ys)
    updates, state = optim.update(grads, state)
    model = eqx.apply_updates(model, updates)
    print(step, loss)
