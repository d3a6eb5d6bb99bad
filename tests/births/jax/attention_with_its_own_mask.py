# from: https://flax.readthedocs.io/en/latest/api_reference/flax.nnx/nn/attention.html
# ask: explain --nonfinite
# birth: forward
# name: weights
# operands: a row of -inf
# value: loss
# given: bias, scores, params
# needs: flax
import jax
import jax.numpy as jnp
from flax import nnx

layer = nnx.Linear(3, 4, rngs=nnx.Rngs(0))
graph, params = nnx.split(layer)
x = jax.random.normal(jax.random.key(1), (2, 3))
bias = jnp.array([[0.0, 0.0], [-jnp.inf, -jnp.inf]])


def loss_of(params, x):
    h = nnx.merge(graph, params)(x)
    scores = h @ h.T + bias
    weights = nnx.softmax(scores)  # <- here
    return jnp.sum((weights @ h) ** 2)


for step in range(2):
    loss, gradients = jax.value_and_grad(loss_of)(params, x)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)
