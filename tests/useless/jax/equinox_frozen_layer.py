# from: https://github.com/patrick-kidger/equinox/blob/main/docs/examples/frozen_layer.ipynb
# truth: healthy: the model is split into a trained and a fixed part, on purpose
# kind: healthy
import equinox as eqx
import jax
import jax.numpy as jnp
import optax

model = eqx.nn.MLP(in_size=1, out_size=1, width_size=12, depth=2, key=jax.random.key(0))
spec = jax.tree.map(lambda _: False, model)
spec = eqx.tree_at(lambda t: (t.layers[-1].weight, t.layers[-1].bias), spec, replace=(True, True))
x = jnp.linspace(0, 1, 30)[:, None]
y = 0.5 * x**2 - x + 1
diff, static = eqx.partition(model, spec)
optim = optax.sgd(0.2)
state = optim.init(diff)


@eqx.filter_jit
def make_step(diff, state):
    @eqx.filter_value_and_grad
    def loss(diff):
        return jnp.mean((jax.vmap(eqx.combine(diff, static))(x) - y) ** 2)

    value, grads = loss(diff)
    updates, state = optim.update(grads, state)
    return eqx.apply_updates(diff, updates), state, value


for step in range(4):
    diff, state, value = make_step(diff, state)
    print(step, value)
