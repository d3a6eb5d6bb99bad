# from: own
# ask: python
"""A checkpoint stops all tapes while it runs, and keeps the gradients all the same: nothing in it is cut off."""

import keras
import tensorflow as tf

import backprobe as bp

keras.utils.set_random_seed(0)
x = tf.constant([[0.1, -0.2, 0.3], [0.4, 0.5, -0.6]])


def squares(y):
    return tf.reduce_sum(y**2)


def stacked():
    with keras.RematScope(mode="full"):
        return keras.Sequential(
            [
                keras.Input((3,)),
                keras.layers.Dense(4, name="a", activation="tanh"),
                keras.layers.Dense(1, name="b"),
            ]
        )


class Own(keras.Model):
    def __init__(self):
        super().__init__()
        with keras.RematScope(mode="full"):
            self.a, self.b = keras.layers.Dense(4, name="a"), keras.layers.Dense(1, name="b")

    def call(self, x):
        return self.b(tf.tanh(self.a(x)))


class Wrapped(keras.Model):
    def __init__(self):
        super().__init__()
        self.a, self.b = keras.layers.Dense(4, name="a"), keras.layers.Dense(1, name="b")

    def both(self, x):
        return self.b(tf.tanh(self.a(x)))

    def call(self, x):
        return tf.recompute_grad(self.both)(x)


for make in (stacked, Own, Wrapped):
    model = make()
    with tf.GradientTape() as tape:
        loss = squares(model(x))
    expected = tape.gradient(loss, model.trainable_variables)
    recording = bp.probe(model, ["**", "**:*"], of=squares)(x)
    statuses = {name: str(entry.status) for name, entry in recording.items()}
    assert not {"no_grad", "detached"} & {*statuses.values()}, statuses
    said = str(bp.explain(recording))
    assert "no gradient history" not in said and "not recorded" not in said, said
    names = ["a.kernel", "a.bias", "b.kernel", "b.bias"]
    for name, gradient in zip(names, expected, strict=True):
        tf.debugging.assert_near(recording[name].grad, gradient)
print(bp.explain(bp.probe(stacked(), ["a", "b"], of=squares)(x), "b"))
