"""Keras's fit, looked into as docs/trainers.md says, on the backend that KERAS_BACKEND names: TensorFlow or PyTorch."""

import keras
import numpy as np
import pytest
from recipes import EVERY, Recipe

IS_TENSORFLOW = keras.backend.backend() == "tensorflow"
LAYERS = ["hidden", "head"]
UPDATES = EVERY + 1


def of(base):
    """A model with two layers, of this class of models."""

    class Model(base):
        def __init__(self):
            super().__init__()
            self.hidden, self.head = keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(1)
            self.by_hand = []

        def call(self, x):
            return self.head(self.hidden(x))

    return Model


def by_hand(base):
    """The same with the gradients of its layers in each batch, taken before the step and without a probe."""

    class Model(of(base)):
        def train_step(self, data):
            self.by_hand.append((gradients_on_tensorflow if IS_TENSORFLOW else gradients_on_pytorch)(self, *data))
            return super().train_step(data)

    return Model


def gradients_on_tensorflow(model, x, y):
    import tensorflow as tf

    with tf.GradientTape() as tape:
        hidden = model.hidden(x)
        head = model.head(hidden)
        loss = model.compute_loss(x, y, head)
    return [gradient.numpy() for gradient in tape.gradient(loss, [hidden, head])]


def gradients_on_pytorch(model, x, y):
    import torch

    hidden = model.hidden(x)
    head = model.head(hidden)
    gradients = torch.autograd.grad(model.compute_loss(x, y, head), [hidden, head])
    return [keras.ops.convert_to_numpy(gradient) for gradient in gradients]


def fit(kind, policy="float32", **options):
    keras.mixed_precision.set_global_policy(policy)
    keras.utils.set_random_seed(0)
    model = kind()
    model.compile(keras.optimizers.Adam(0.01, **options), "mse", run_eagerly=IS_TENSORFLOW)
    x = np.random.default_rng(0).normal(size=(8 * UPDATES, 4)).astype("float32")
    batches = UPDATES * options.get("gradient_accumulation_steps", 1)
    model.fit(x[: 4 * batches], x[: 4 * batches].sum(1, keepdims=True), batch_size=4, shuffle=False, verbose=0)
    return model


@pytest.fixture(autouse=True)
def usual_precision():
    yield
    keras.mixed_precision.set_global_policy("float32")


@pytest.mark.parametrize(
    ("accumulated", "options"),
    [(1, {}), (1, {"clipnorm": 0.01}), (2, {"clipnorm": 0.01}), (1, {"policy": "mixed_bfloat16"})],
    ids=["plain", "clipped", "accumulated", "bfloat16"],
)
def test_two_layers_every_tenth_step(accumulated, options):
    if accumulated > 1:
        options = options | {"gradient_accumulation_steps": accumulated}
    recipe = Recipe("Keras", LAYERS)
    bare, hooked, model = (
        fit(kind, **options) for kind in (of(keras.Model), by_hand(keras.Model), of(recipe["LookingModel"]))
    )
    assert all(map(np.array_equal, model.get_weights(), bare.get_weights()))
    assert [step for step, _ in recipe.seen] == [step for step in (0, 10) for _ in range(accumulated)]
    expected = [each for at, each in enumerate(hooked.by_hand) if at // accumulated % EVERY == 0]
    for at, name in enumerate(LAYERS):
        found = [keras.ops.convert_to_numpy(gradient) for gradient in recipe.gradients(name)]
        assert len(found) == len(expected) > 0
        assert all(np.array_equal(one, each[at]) for one, each in zip(found, expected, strict=True)), name
    assert all(rec.notes == () for _, rec in recipe.seen)
