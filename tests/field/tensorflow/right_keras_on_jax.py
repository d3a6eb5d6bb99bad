# from: https://keras.io/guides/writing_a_custom_training_loop_in_jax/
# exit: 0
# never: got no gradient|useless|exactly 0|unused
"""Keras on JAX by `stateless_call`, with an optimizer's `stateless_apply`."""

import os

os.environ["KERAS_BACKEND"] = "jax"
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import keras  # noqa: E402

keras.utils.set_random_seed(0)
model = keras.Sequential(
    [keras.Input((3,)), keras.layers.Dense(4, activation="tanh"), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
)
optimizer = keras.optimizers.Adam(1e-2)
optimizer.build(model.trainable_variables)
x = jax.random.normal(jax.random.key(0), (16, 3))
y = x.sum(1, keepdims=True)


def loss_of(trained, kept, x, y):
    prediction, kept = model.stateless_call(trained, kept, x, training=True)
    return jnp.mean((jnp.tanh(prediction) - y) ** 2), kept


@jax.jit
def step(state, x, y):
    trained, kept, slots = state
    (loss, kept), gradients = jax.value_and_grad(loss_of, has_aux=True)(trained, kept, x, y)
    trained, slots = optimizer.stateless_apply(slots, gradients, trained)
    return loss, (trained, kept, slots)


state = ([v.value for v in each] for each in (model.trainable_variables, model.non_trainable_variables, optimizer.variables))
state = tuple(state)
for turn in range(2):
    loss, state = step(state, x, y)
    print(turn, float(loss))
