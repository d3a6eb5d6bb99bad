# from: own
# truth: healthy: the whole training runs within lax.scan; the first rate of the warm-up is exactly 0
# kind: healthy
import jax
import jax.numpy as jnp
import optax

x = jax.random.normal(jax.random.key(0), (50, 3))
y = jnp.tanh(x[:, 0]) - x[:, 1] * 0.5
schedule = optax.warmup_cosine_decay_schedule(init_value=0.0, peak_value=0.1, warmup_steps=3, decay_steps=10)
tx = optax.sgd(schedule, momentum=0.9)
params = {"w": 0.1 * jnp.ones((3, 8)), "v": 0.3 * jnp.cos(jnp.arange(8.0))}
params["w"] = params["w"] * jnp.arange(1.0, 9.0)


def loss_fn(params):
    return jnp.mean((jnp.tanh(x @ params["w"]) @ params["v"] - y) ** 2)


def one(carry, _):
    params, state = carry
    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, state = tx.update(grads, state)
    return (optax.apply_updates(params, updates), state), loss


(params, state), losses = jax.lax.scan(one, (params, tx.init(params)), length=10)
print(losses)
