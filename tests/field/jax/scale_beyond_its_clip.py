# from: own
# exit: 1
# says: the gradient of 'params\.log_scale' is useless
# says: clip is flat there: the gradient of 'params\.log_scale' is exactly 0 in each iteration
# says: use wider ones, or tanh
# A scale that starts outside of the limits it is clipped to never moves.
import jax
import jax.numpy as jnp

params = {"w": jax.random.normal(jax.random.key(0), (4, 1)), "log_scale": jnp.array(5.0)}


def loss_fn(params, x, y):
    mean = (x @ params["w"])[:, 0]
    log_scale = jnp.clip(params["log_scale"], -3.0, 2.0)  # <- here
    return jnp.mean(0.5 * ((y - mean) / jnp.exp(log_scale)) ** 2 + log_scale)


step = jax.jit(jax.value_and_grad(loss_fn))
for i in range(4):
    a, b = jax.random.split(jax.random.key(i))
    loss, grads = step(params, jax.random.normal(a, (8, 4)), jax.random.normal(b, (8,)))
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
