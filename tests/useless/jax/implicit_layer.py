# from: https://docs.jax.dev/en/latest/notebooks/Custom_derivative_rules_for_Python_code.html
# truth: healthy: a fixed point whose derivative is written by custom_vjp; its start has none, which is right
# kind: healthy
from functools import partial

import jax
import jax.numpy as jnp


def iterate(f, x):
    return jax.lax.fori_loop(0, 30, lambda _, z: f(z), x)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def fixed_point(f, a, guess):
    return iterate(lambda z: f(a, z), guess)


def forward(f, a, guess):
    z = fixed_point(f, a, guess)
    return z, (a, z)


def backward(f, kept, upstream):
    a, z = kept
    _, by_a = jax.vjp(lambda a: f(a, z), a)
    _, by_z = jax.vjp(lambda z: f(a, z), z)
    (slope,) = by_a(iterate(lambda u: upstream + by_z(u)[0], upstream))
    return slope, jnp.zeros_like(z)


fixed_point.defvjp(forward, backward)


def cell(a, z):
    w, x = a
    return 0.5 * jnp.tanh(z @ w) + x


def loss_fn(params, x, y):
    z = fixed_point(cell, (params["w"], x @ params["u"]), jnp.zeros((len(x), 6)))
    return jnp.mean((z @ params["v"] - y) ** 2)


k1, k2, k3, k4 = jax.random.split(jax.random.key(0), 4)
params = {"w": 0.2 * jax.random.normal(k1, (6, 6)), "u": 0.5 * jax.random.normal(k2, (3, 6))}
params["v"] = 0.4 * jax.random.normal(k3, (6,))
x = jax.random.normal(k4, (30, 3))
y = x[:, 0] * x[:, 1]
for step in range(4):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    params = jax.tree.map(lambda p, g: p - 0.2 * g, params, grads)
    print(step, loss)
