# from: https://docs.kidger.site/equinox/api/nn/normalisation/
# ask: explain --nonfinite
# birth: forward
# name: h
# operands: a row of 0.0
# value: loss
# needs: equinox
import equinox as eqx
import jax
import jax.numpy as jnp

norm, head = eqx.nn.LayerNorm(3, eps=0.0), eqx.nn.Linear(3, 1, key=jax.random.key(0))
x, y = jnp.array([0.0, 0.0, 0.0]), jnp.array([1.0])


def loss_of(layers, x, y):
    norm, head = layers
    h = norm(x)  # <- here
    return jnp.sum((head(h) - y) ** 2)


layers = (norm, head)
for step in range(2):
    loss, gradients = eqx.filter_value_and_grad(loss_of)(layers, x, y)
    layers = eqx.apply_updates(layers, jax.tree.map(lambda g: -0.1 * g, gradients))
