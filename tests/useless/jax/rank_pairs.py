# from: https://github.com/google/rax
# truth: healthy: [N, 1] minus [1, N] is the table of all pairs of a ranking loss, pairs in the wrong order weigh 0
# kind: healthy
import jax
import jax.numpy as jnp
import optax


def pairwise(scores, labels):
    margins = scores[:, None] - scores[None, :]
    better = labels[:, None] > labels[None, :]
    return jnp.sum(jnp.where(better, jax.nn.softplus(-margins), 0.0)) / jnp.maximum(better.sum(), 1)


def loss_fn(params, x, labels):
    scores = jnp.tanh(x @ params["w"] + params["b"]) @ params["v"]
    return jnp.mean(jax.vmap(pairwise)(scores, labels))


x = jax.random.normal(jax.random.key(0), (8, 6, 4))
labels = jnp.clip(jnp.round(x[..., 0] + 1), 0, 3)
k1, k2 = jax.random.split(jax.random.key(1))
params = {"w": 0.5 * jax.random.normal(k1, (4, 10)), "b": jnp.zeros(10), "v": 0.3 * jax.random.normal(k2, (10,))}
opt = optax.adam(0.02)
state = opt.init(params)
for step in range(4):
    loss, grads = jax.jit(jax.value_and_grad(loss_fn))(params, x, labels)
    updates, state = opt.update(grads, state)
    params = optax.apply_updates(params, updates)
    print(step, loss)
