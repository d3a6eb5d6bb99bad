# from: https://github.com/jax-ml/jax/issues/8285
# exit: 0
# never: got no gradient|useless|stop_gradient|discrete
"""A gate chooses two of four experts by `top_k`: its values carry a gradient, and its indices need none."""

import jax
import jax.numpy as jnp
from jax import lax

keys = jax.random.split(jax.random.key(0), 3)
params = {"gate": jax.random.normal(keys[0], (3, 4)), "experts": 0.5 * jax.random.normal(keys[1], (4, 3, 1))}
x = jax.random.normal(keys[2], (16, 3))


def loss_of(params, x):
    scores, chosen = lax.top_k(x @ params["gate"], 2)
    weights = jax.nn.softmax(scores)
    outs = jnp.einsum("ni,nkio->nko", x, params["experts"][chosen])
    return jnp.mean(((weights[..., None] * outs).sum(1) - x.sum(1, keepdims=True)) ** 2)


step = jax.jit(jax.value_and_grad(loss_of))
for turn in range(3):
    loss, gradients = step(params, x)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)
    print(float(loss))
