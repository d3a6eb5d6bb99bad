# from: https://github.com/google-deepmind/optax/blob/main/examples/freezing_parameters.ipynb
# truth: healthy: the updates of the frozen layer are set to zero on purpose
# kind: healthy
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

model = nn.Sequential([nn.Dense(16), nn.tanh, nn.Dense(2)])
x = jax.random.normal(jax.random.key(0), (32, 6))
y = (x[:, 0] > 0).astype(jnp.int32)
params = model.init(jax.random.key(1), x)
labels = {"params": {"layers_0": "frozen", "layers_2": "trained"}}
tx = optax.multi_transform({"trained": optax.adam(0.05), "frozen": optax.set_to_zero()}, labels)
state = tx.init(params)


def loss_fn(params):
    return optax.softmax_cross_entropy_with_integer_labels(model.apply(params, x), y).mean()


for step in range(4):
    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, state = tx.update(grads, state, params)
    params = optax.apply_updates(params, updates)
    print(step, loss)
