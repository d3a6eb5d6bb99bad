# from: https://github.com/jax-ml/jax/pull/4312
# exit: 3
# says: activity
# says: return jnp\.mean\(\(forward\(params, x\) \- 1\.0\) \*\* 2\) \+ 0\.1 \* kept\["activity"\]
# never: got a gradient
"""A jitted function keeps a value in a dict for the loss: outside it is a tracer that has escaped."""

import jax
import jax.numpy as jnp

kept = {}
params = {"w": jax.random.normal(jax.random.key(0), (3, 4)), "v": jnp.ones((4, 1)) * 0.2}
x = jax.random.normal(jax.random.key(1), (8, 3))


@jax.jit
def forward(params, x):
    h = jnp.tanh(x @ params["w"])
    kept["activity"] = jnp.mean(h**2)
    return h @ params["v"]


def loss_of(params):
    return jnp.mean((forward(params, x) - 1.0) ** 2) + 0.1 * kept["activity"]


for turn in range(2):
    gradients = jax.grad(loss_of)(params)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)
print(gradients["v"])
