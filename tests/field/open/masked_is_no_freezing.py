# from: https://github.com/google-deepmind/optax/issues/159
# exit: 1
# says: encoder
# says: masked|added|as it is|uphill
"""`optax.masked` leaves the other gradients as they are: they are added to the encoder, uphill and at a rate of 1."""

import jax
import jax.numpy as jnp
import optax

params = {
    "encoder": 0.5 * jax.random.normal(jax.random.key(0), (3, 5)),
    "head": 0.5 * jax.random.normal(jax.random.key(1), (5, 1)),
}
tx = optax.masked(optax.sgd(0.1), {"encoder": False, "head": True})  # <- here
state = tx.init(params)
x = jax.random.normal(jax.random.key(2), (16, 3))


def loss_of(params):
    return jnp.mean((jnp.tanh(x @ params["encoder"]) @ params["head"] - x.sum(1, keepdims=True)) ** 2)


for turn in range(3):
    loss, gradients = jax.value_and_grad(loss_of)(params)
    updates, state = tx.update(gradients, state, params)
    params = optax.apply_updates(params, updates)
    print(float(loss))
