# from: https://optax.readthedocs.io/en/latest/_collections/examples/lookahead_mnist.html
# truth: healthy: the slow parameters stay as they are for five steps, the fast ones move in each
# kind: healthy
import jax
import jax.numpy as jnp
import optax


def predict(params, x):
    for weight, bias in params[:-1]:
        x = jax.nn.relu(x @ weight + bias)
    weight, bias = params[-1]
    return x @ weight + bias


def loss_fn(params, x, labels):
    return optax.softmax_cross_entropy_with_integer_labels(predict(params, x), labels).mean()


keys = jax.random.split(jax.random.key(0), 4)
x, labels = jax.random.normal(keys[0], (32, 10)), jax.random.randint(keys[1], (32,), 0, 4)
initial = [
    (jax.random.normal(keys[2], (10, 16)) * 0.3, jnp.zeros(16)),
    (jax.random.normal(keys[3], (16, 4)) * 0.3, jnp.zeros(4)),
]
optimizer = optax.lookahead(optax.adam(2e-3), sync_period=5, slow_step_size=0.5)
params = optax.LookaheadParams.init_synced(initial)
state = optimizer.init(params)
for step in range(6):
    loss, grads = jax.value_and_grad(loss_fn)(params.fast, x, labels)
    updates, state = optimizer.update(grads, state, params)
    params = optax.apply_updates(params, updates)
    print(step, float(loss))
