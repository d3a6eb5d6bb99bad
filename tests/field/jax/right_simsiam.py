# from: https://github.com/facebookresearch/simsiam
# exit: 0
# never: got no gradient|useless|exactly 0
"""SimSiam: each view's projection is a target without a gradient once, and is predicted from once."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx


class SimSiam(nnx.Module):
    def __init__(self, rngs):
        self.encoder, self.predictor = nnx.Linear(5, 4, rngs=rngs), nnx.Linear(4, 4, rngs=rngs)

    def __call__(self, x):
        z = nnx.tanh(self.encoder(x))
        return self.predictor(z), jax.lax.stop_gradient(z)


def loss_of(model, first, second):
    p, z = model(first)
    q, y = model(second)
    return -(optax.cosine_similarity(p, y).mean() + optax.cosine_similarity(q, z).mean()) / 2


model = SimSiam(nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.sgd(0.05), wrt=nnx.Param)
x = jax.random.normal(jax.random.key(0), (16, 5))
for key in jax.random.split(jax.random.key(1), 2):
    views = [x + 0.1 * jax.random.normal(each, x.shape) for each in jax.random.split(key)]
    loss, gradients = nnx.value_and_grad(loss_of)(model, *views)
    optimizer.update(model, gradients)
    print(float(loss))
