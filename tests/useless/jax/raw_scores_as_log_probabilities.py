# from: https://github.com/google-deepmind/optax/issues/18
# truth: the network ends without a log_softmax and its raw scores are picked as if they were log-probabilities
# kind: not log-probabilities
# names: preds
import jax
import jax.numpy as jnp
import optax


def init(key, sizes):
    keys = jax.random.split(key, len(sizes))
    return [(jax.random.normal(k, (m, n)) / m**0.5, jnp.zeros(n)) for k, m, n in zip(keys, sizes, sizes[1:])]


def net(params, x):
    for w, b in params[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = params[-1]
    return x @ w + b


def loss(params, inputs, targets):
    preds = net(params, inputs)
    return -jnp.mean(jnp.sum(preds * targets, axis=1))  # <- here


params = init(jax.random.key(0), [9, 16, 5])
inputs = jax.random.normal(jax.random.key(1), (40, 9))
targets = jax.nn.one_hot(jnp.argmax(inputs[:, :5], 1), 5)
opt = optax.adam(1e-3)
state = opt.init(params)
for step in range(5):
    value, grads = jax.value_and_grad(loss)(params, inputs, targets)
    updates, state = opt.update(grads, state)
    params = optax.apply_updates(params, updates)
    print(step, value)
