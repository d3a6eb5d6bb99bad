# from: https://github.com/jax-ml/jax/issues/17555
# ask: explain
# kind: discrete
# name: logits
# missing: gradients["logits"]
# moves: params["logits"] = params["logits"] * -4.0
"""Which rewards are summed is drawn, so the matrix that they are drawn by gets nothing."""

import jax
import jax.numpy as jnp

draw = jax.random.categorical


def loss_of(params, rewards, key):
    chosen = draw(key, params["logits"])  # <- here
    won = jnp.take_along_axis(rewards, chosen[:, None], 1)
    return -jnp.mean(won * params["stake"]) + params["stake"] ** 2


params = {"logits": jax.random.normal(jax.random.key(0), (12, 4)), "stake": jnp.array(1.0)}
rewards = jax.random.uniform(jax.random.key(1), (12, 4))
for step in range(2):
    loss, gradients = jax.value_and_grad(loss_of)(params, rewards, jax.random.key(step + 2))
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)
