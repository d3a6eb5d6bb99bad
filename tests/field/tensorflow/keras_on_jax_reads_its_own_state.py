# from: https://github.com/keras-team/keras/issues/18689
# exit: 1
# says: (?i)weights
# says: model\(x\)
# never: all \d+ parameters got a gradient$
"""Keras on JAX: the loss calls the model as it is, and not with the weights that JAX differentiates."""

import os

os.environ["KERAS_BACKEND"] = "jax"
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import keras  # noqa: E402

keras.utils.set_random_seed(0)
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(1)])
x = jax.random.normal(jax.random.key(0), (16, 3))
y = x.sum(1, keepdims=True)


def loss_of(weights, x, y):
    return jnp.mean((model(x) - y) ** 2)  # <- here


weights = [v.value for v in model.trainable_variables]
for step in range(2):
    loss, gradients = jax.value_and_grad(loss_of)(weights, x, y)
    weights = [w - 0.1 * g for w, g in zip(weights, gradients)]
    print(step, float(loss))
