# from: https://github.com/probml/dynamax
# truth: healthy: the forward algorithm in logarithms, of which each step is a logsumexp of log-probabilities
# kind: healthy
import jax
import optax


def log_likelihood(params, observed):
    start = jax.nn.log_softmax(params["start"])
    moves = jax.nn.log_softmax(params["moves"], axis=1)
    emits = jax.nn.log_softmax(params["emits"], axis=1)

    def step(alpha, symbol):
        alpha = jax.nn.logsumexp(alpha[:, None] + moves, axis=0) + emits[:, symbol]
        return alpha, None

    alpha, _ = jax.lax.scan(step, start + emits[:, observed[0]], observed[1:])
    return jax.nn.logsumexp(alpha)


def loss_fn(params, batch):
    return -jax.vmap(log_likelihood, (None, 0))(params, batch).mean() / batch.shape[1]


keys = jax.random.split(jax.random.key(1), 4)
params = {
    "start": jax.random.normal(keys[0], (3,)),
    "moves": jax.random.normal(keys[1], (3, 3)),
    "emits": jax.random.normal(keys[2], (3, 5)),
}
batch = jax.random.randint(keys[3], (8, 12), 0, 5)
optimizer = optax.sgd(0.5)
state = optimizer.init(params)
for epoch in range(4):
    loss, grads = jax.jit(jax.value_and_grad(loss_fn))(params, batch)
    updates, state = optimizer.update(grads, state)
    params = optax.apply_updates(params, updates)
    print(epoch, float(loss))
