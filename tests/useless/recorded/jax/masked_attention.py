# from: own
# truth: healthy: the first row attends to itself alone, so nothing of its scores counts
# kind: healthy
import jax
import jax.numpy as jnp


def loss(params, tokens):
    x = params["embed"][tokens]
    q, k, v = (x @ params[name] for name in "qkv")
    scores = jnp.where(jnp.tril(jnp.ones((len(x), len(x)), bool)), q @ k.T / 8**0.5, -1e9)
    logits = (jax.nn.softmax(scores) @ v) @ params["embed"].T
    log_p = jax.nn.log_softmax(logits[:-1])
    return -jnp.take_along_axis(log_p, tokens[1:, None], axis=-1).mean()


keys = jax.random.split(jax.random.PRNGKey(0), 5)
weights = {name: jax.random.normal(key, (8, 8)) * 0.3 for name, key in zip("qkv", keys)}
weights["embed"] = jax.random.normal(keys[3], (12, 8))
PROBED = loss
GIVEN = weights, jax.random.randint(keys[4], (9,), 0, 12)
