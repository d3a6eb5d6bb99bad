# from: own
# truth: the mapped network gives [N, 1] and the targets are [N], so that the residual is a table of N times N
# kind: outer product
# names: residual
import equinox as eqx
import jax
import jax.numpy as jnp
import optax

x = jnp.linspace(-1, 1, 32)[:, None]
y = jnp.sin(3 * x[:, 0])
model = eqx.nn.MLP(in_size=1, out_size=1, width_size=16, depth=2, key=jax.random.key(0))


@eqx.filter_value_and_grad
def loss_fn(model, x, y):
    predictions = jax.vmap(model)(x)
    residual = predictions - y  # <- here
    return jnp.mean(residual**2)


optim = optax.adam(3e-3)
opt_state = optim.init(eqx.filter(model, eqx.is_array))
for step in range(5):
    loss, grads = loss_fn(model, x, y)
    updates, opt_state = optim.update(grads, opt_state)
    model = eqx.apply_updates(model, updates)
    print(step, loss)
