# from: https://docs.jax.dev/en/latest/notebooks/Custom_derivative_rules_for_Python_code.html
# ask: explain
# kind: healthy
"""A rule clips the gradient on its way back, and has nothing for its limits, which are no parameters."""

import jax
import jax.numpy as jnp


@jax.custom_vjp
def clip_backward(low, high, x):
    return x


def forward(low, high, x):
    return x, (low, high)


def backward(limits, upstream):
    return None, None, jnp.clip(upstream, *limits)


clip_backward.defvjp(forward, backward)


def loss_of(params, x, y):
    h = clip_backward(-0.01, 0.01, jnp.tanh(x @ params["inner"]))
    return jnp.mean((h @ params["outer"] - y) ** 2)


one, two, three, four = jax.random.split(jax.random.key(3), 4)
params = {"inner": jax.random.normal(one, (3, 4)), "outer": jax.random.normal(two, (4, 1))}
x, y = jax.random.normal(three, (7, 3)), jax.random.normal(four, (7, 1))
for step in range(3):
    loss, slopes = jax.value_and_grad(loss_of)(params, x, y)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, slopes)
