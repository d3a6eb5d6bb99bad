"""The cost of probing a Keras model, as ratios to the bare step measured side by side in one run.

The bare step is the forward pass, the loss and the gradients of all Variables, eagerly, as ``tf.GradientTape`` gives
them. A probe listens to each operation, reads each Variable once, compares each layer with what the last walk over the
model has found (the first call walks it, and so does one after a change), keeps each layer's output alive until
backward, and asks the tape for the gradients of these besides those of the Variables. It differentiates floating inputs
too: in an MLP the first layer's gradient with respect to its input is one more matrix product, which the bare step
"with the input watched" also computes. In a block the input is not differentiated. "operations heard" is the least that
a block could take: a callback of TensorFlow's that does nothing while the forward pass runs.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import tensorflow as tf
from side_by_side import compare
from tensorflow.python.eager import context

import backprobe as bp


class Block(keras.layers.Layer):
    """A transformer block."""

    def __init__(self, width, heads):
        super().__init__()
        self.norm, self.norm_after = keras.layers.LayerNormalization(), keras.layers.LayerNormalization()
        self.attention = keras.layers.MultiHeadAttention(heads, width // heads)
        self.up, self.down = keras.layers.Dense(4 * width, activation="gelu"), keras.layers.Dense(width)

    def call(self, x):
        h = self.norm(x)
        x = x + self.attention(h, h)
        return x + self.down(self.up(self.norm_after(x)))


def mlp(width, depth):
    hidden = [keras.layers.Dense(width, activation="relu") for _ in range(depth)]
    return keras.Sequential([keras.Input((width,)), *hidden, keras.layers.Dense(10)])


def transformer(width, depth, tokens):
    return keras.Sequential([keras.Input((tokens, width)), *(Block(width, 4) for _ in range(depth))])


def models():
    return {
        "MLP of 6 layers, width 64": (mlp(64, 6), (32, 64)),
        "MLP of 6 layers, width 1024": (mlp(1024, 6), (64, 1024)),
        "4 transformer blocks, width 64": (transformer(64, 4, 16), (4, 16, 64)),
        "4 transformer blocks, width 256": (transformer(256, 4, 64), (8, 64, 256)),
    }


def loss(output):
    return tf.reduce_mean(output * output)


def ignore(*told):
    """Hear of an operation."""


def steps(model, x):
    def bare():
        with tf.GradientTape() as tape:
            value = loss(model(x))
        return tape.gradient(value, model.trainable_variables)

    def watching():
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = loss(model(x))
        return tape.gradient(value, model.trainable_variables)

    def heard():
        here = context.context()
        here.add_op_callback(ignore)
        try:
            with tf.GradientTape() as tape:
                value = loss(model(x))
        finally:
            here.remove_op_callback(ignore)
        return tape.gradient(value, model.trainable_variables)

    def block():
        with bp.probe(model, "*"):
            value = loss(model(x))  # the variable that the block differentiates when it ends
        return value

    outputs = bp.probe(model, of=loss)
    return bare, {
        "bare, again": bare,
        "bare, operations heard": heard,
        "bare, with the input watched": watching,
        "every layer's output, in a block": block,
        "every layer's output": lambda: outputs(x),
        "every output, with partials": lambda: bp.probe(model, of=loss, partials=True)(x),
    }


def main():
    tf.config.threading.set_intra_op_parallelism_threads(1)
    keras.utils.set_random_seed(0)
    for name, (model, shape) in models().items():
        bare, variants = steps(model, tf.random.normal(shape))
        median, ratios = compare(variants, bare)
        print(f"{name}: bare step {median * 1e3:.1f} ms")
        for variant, ratio in ratios.items():
            print(f"  {variant:34} × {ratio:.2f}")


if __name__ == "__main__":
    main()
