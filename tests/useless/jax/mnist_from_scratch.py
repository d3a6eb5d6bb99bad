# from: https://github.com/jax-ml/jax/blob/main/examples/mnist_classifier_fromscratch.py
# truth: healthy: the logits minus their logsumexp are log-probabilities, their product with one-hot targets picks one
# kind: healthy
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp


def init(key, sizes):
    keys = jax.random.split(key, len(sizes))
    return [(0.3 * jax.random.normal(k, (m, n)), jnp.zeros(n)) for k, m, n in zip(keys, sizes, sizes[1:])]


def predict(params, x):
    for w, b in params[:-1]:
        x = jnp.tanh(x @ w + b)
    w, b = params[-1]
    logits = x @ w + b
    return logits - logsumexp(logits, axis=1, keepdims=True)


def loss(params, x, targets):
    return -jnp.mean(jnp.sum(predict(params, x) * targets, axis=1))


@jax.jit
def update(params, x, targets):
    grads = jax.grad(loss)(params, x, targets)
    return [(w - 0.5 * dw, b - 0.5 * db) for (w, b), (dw, db) in zip(params, grads)]


x = jax.random.normal(jax.random.key(0), (60, 8))
targets = jax.nn.one_hot(jnp.argmax(x[:, :3], 1), 3)
params = init(jax.random.key(1), [8, 16, 3])
for epoch in range(4):
    params = update(params, x, targets)
    print(epoch, loss(params, x, targets))
