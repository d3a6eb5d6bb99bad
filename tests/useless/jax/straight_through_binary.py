# from: https://docs.jax.dev/en/latest/advanced-autodiff.html
# truth: healthy: round() gets the slope of the identity by stop_gradient
# kind: healthy
import jax
import jax.numpy as jnp


def rounded(x):
    return x + jax.lax.stop_gradient(jnp.round(x) - x)


def loss_fn(params, x):
    code = rounded(jax.nn.sigmoid(x @ params["enc"]))
    return jnp.mean((code @ params["dec"] + params["b"] - x) ** 2)


k1, k2, k3 = jax.random.split(jax.random.key(0), 3)
params = {"enc": 0.5 * jax.random.normal(k1, (8, 5)), "dec": 0.3 * jax.random.normal(k2, (5, 8)), "b": jnp.zeros(8)}
x = jax.random.normal(k3, (40, 2)) @ jnp.ones((2, 8)) + 0.1
for step in range(5):
    loss, grads = jax.value_and_grad(loss_fn)(params, x)
    params = jax.tree.map(lambda p, g: p - 0.2 * g, params, grads)
    print(step, loss)
