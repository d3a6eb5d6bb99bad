"""Threads about TensorFlow and Keras."""

import keras
import numpy as np
import tensorflow as tf

from threads import thread

THREADS = []
missing, nonfinite = thread("missing", THREADS), thread("nonfinite", THREADS)


def dense(name, units=2, value=0.5):
    layer = keras.layers.Dense(units, kernel_initializer=keras.initializers.Constant(value), name=name)
    layer.build((None, 2))
    return layer


@missing(
    "https://github.com/tensorflow/tensorflow/issues/56968",
    "a tape is asked for the gradient of a constant with respect to another",
    "the one must be computed from the other, and the tape must watch it",
    "frozen_leaf",
    "not_watched",
    asked="ones",
    says=("tape.watch(ones)",),
)
def constant(probe):
    with probe() as rec:
        ones = tf.ones([1, 4])  # <- here
        with tf.GradientTape() as tape:
            class_channel = tf.constant([4.4])
        gradients = tape.gradient(class_channel, ones)  # <- here
        loss = tf.reduce_sum(ones)
    return rec


@missing(
    "https://github.com/tensorflow/tensorflow/issues/36596",
    "the gradient with respect to an image is None, with a loss function of one's own",
    "no NumPy between the model and the loss",
    "numpy",
    asked="scores",
    says=("numpy",),
)
def loss_in_numpy(probe):
    model = dense("head")
    image = tf.Variable([[1.0, 2.0]])
    with probe() as rec:
        scores = model(image)
        wrong = 1.0 - scores.numpy()  # <- here
        loss = tf.reduce_mean(tf.convert_to_tensor(wrong)) + 0.0 * tf.reduce_sum(model.bias)
    return rec


@missing(
    "https://github.com/tensorflow/tensorflow/issues/50661",
    "the gradient of a convolution with respect to its inputs is None",
    "a tape watches Variables by itself, and tensors only after `watch`",
    "not_watched",
    asked="image",
    says=("tape.watch(image)",),
)
def not_watched(probe):
    image, kernel = tf.ones([1, 4, 4, 1]), tf.ones([3, 3, 1, 1])
    with probe() as rec:
        with tf.GradientTape() as tape:
            out = tf.nn.conv2d(image, kernel, strides=1, padding="VALID")
            loss = tf.reduce_sum(out)
        gradient = tape.gradient(loss, image)  # <- here
    return rec


def square(value):
    return value**2  # <- here for called_too_late


@missing(
    "https://github.com/tensorflow/tensorflow/issues/27660",
    "the function is called only in the call of `tape.gradient`, after the tape was closed",
    "compute it inside the `with` of the tape",
    "outside_tape",
    asked="x",
    says=("with tf.GradientTape() as tape:",),
)
def called_too_late(probe):
    x = tf.Variable(9.0)
    with probe() as rec:
        with tf.GradientTape() as tape:
            tape.watch(x)
        out = square(x)
        gradient = tape.gradient(out, x)
    return rec


@missing(
    "https://github.com/tensorflow/tensorflow/issues/31919",
    "the generator of a GAN gets no gradients: its samples go through `.numpy()` into their moments",
    "compute the moments with TensorFlow's operations",
    "numpy",
    asked="g_fake_data",
    says=("numpy",),
)
def moments(probe):
    generator, discriminator = dense("generator"), dense("discriminator", 1)
    with probe() as rec:
        g_fake_data = generator(tf.ones([3, 2]))
        data = g_fake_data.numpy()  # <- here
        moments_of_it = np.stack([data.mean(), data.std()]).reshape(1, 2)
        decision = discriminator(moments_of_it)
        g_error = tf.reduce_mean(tf.square(decision - 1.0))
    return rec


@missing(
    "https://github.com/tensorflow/tensorflow/issues/30234",
    "weights are updated with `assign_sub` in an inner loop of meta-learning",
    "TensorFlow does not track what is assigned to a Variable: use a plain tensor",
    "assigned",
    asked="x",
    says=("assign",),
)
def assigned(probe):
    v, x = tf.Variable(1.0), tf.Variable(2.0)
    with probe() as rec:
        v.assign_add(x * 1.0)  # <- here
        loss = v * v
    return rec


@missing(
    "https://github.com/keras-team/keras/issues/16663",
    "a loss that compares the order of predictions, by `argsort`",
    "with the loss `mse` in its place it trains",
    "index",
    asked="y_pred",
    says=("positions",),
)
def order_of_predictions(probe):
    model = dense("head", 3)
    y_true = tf.constant([[2.0, 0.0, 1.0]])
    with probe() as rec:
        y_pred = model(tf.ones([1, 2])) + tf.constant([[0.1, 0.3, 0.2]])
        wanted = tf.argsort(tf.argsort(y_true))
        predicted = tf.argsort(tf.argsort(y_pred))  # <- here
        loss = tf.reduce_sum(tf.cast(tf.abs(wanted - predicted), tf.float32)) + tf.reduce_sum(model.bias)
    return rec


@missing(
    "https://github.com/keras-team/keras/issues/4175",
    "predictions are rounded in a loss function",
    "none; without the rounding it works",
    "no_derivative",
    asked="y_pred",
    says=("round",),
)
def rounded(probe):
    model = dense("head", 1)
    with probe() as rec:
        y_pred = model(tf.ones([2, 2]))
        loss = tf.reduce_mean(tf.abs(tf.round(y_pred) - 3.0)) + tf.reduce_sum(model.bias)  # <- here
    return rec


@missing(
    "https://github.com/keras-team/keras/issues/11157",
    "`argmax` and `cast` between the layers of a model",
    "the error itself names `argmax` and `round` as operations without a gradient",
    "index",
    asked="encoded",
    says=("positions",),
)
def argmax_between(probe):
    encoder, decoder = dense("encoder", 3), keras.layers.Embedding(3, 2, name="decoder")
    with probe() as rec:
        encoded = encoder(tf.ones([2, 2]))
        tokens = tf.cast(tf.argmax(encoded, axis=-1), tf.float32)  # <- here
        out = decoder(tokens)
        loss = tf.reduce_sum(out)
    return rec


class WithPooler(keras.Model):
    def __init__(self):
        super().__init__()
        self.encoder, self.pooler = dense("encoder"), dense("pooler")

    def call(self, inputs):
        hidden = self.encoder(inputs)
        self.pooler(hidden)
        return hidden


@missing(
    "https://github.com/huggingface/transformers/issues/2256",
    "“Gradients do not exist for variables”: the pooler's, when only the hidden states are used",
    "closed, answer not seen",
    "unused",
    asked="pooler.kernel",
    says=("nothing",),
)
def pooler_not_used(probe):
    model = WithPooler()
    with probe(model, ["**", ":*"]) as rec:
        loss = tf.reduce_sum(model(tf.ones([1, 2])))
    return rec


@missing(
    "https://github.com/tensorflow/tensorflow/issues/24849",
    "None, and not zero, for a Variable that the expression does not contain",
    "no answer; the asker wishes for zeros",
    "unused",
    asked="other",
    says=("nothing",),
)
def other_variable(probe):
    x, y = tf.Variable(1.0), tf.Variable(2.0)
    with probe() as rec:
        other = y * 1.0  # <- here
        loss = x * x
    return rec


@nonfinite(
    "https://github.com/tensorflow/tensorflow/issues/27684",
    "`tf.where` over `alpha * log(x)`: the gradient of `alpha` is NaN where `x` is negative",
    "protect what goes into the logarithm as well: `tf.where` inside and outside",
    "born_backward",
    says=("where",),
)
def branch_not_taken(probe):
    x, alpha = tf.constant([-1.0, 2.0]), tf.Variable(1.0)
    with probe() as rec:
        s = tf.where(x >= 0.0, alpha * tf.math.log(x), tf.zeros_like(x))  # <- here
        loss = tf.reduce_sum(s)
    return rec


@nonfinite(
    "https://github.com/tensorflow/tensorflow/issues/12071",
    "the gradient of `tf.norm` at zero",
    "open; later pull requests keep the root from 0",
    "born_backward",
    says=("the derivative of norm is 0/0 at 0",),
)
def norm_at_zero(probe):
    x = tf.Variable([0.0, 0.0])
    with probe() as rec:
        size = tf.norm(x)  # <- here
    return rec


@nonfinite(
    "https://github.com/tensorflow/tensorflow/issues/2295",
    "gamma correction: `tf.pow(y, 1 / 2.4)` of a colour that was clamped at 0",
    "clamp it at a small number instead",
    "born_backward",
    says=("the derivative of pow is infinite at 0",),
)
def gamma_correction(probe):
    colour = tf.Variable([0.0, 0.5])
    with probe() as rec:
        y = tf.minimum(tf.maximum(colour, 0.0), 1.0)
        linear = tf.pow(y, 1.0 / 2.4)  # <- here
        loss = tf.reduce_sum(linear)
    return rec


@nonfinite(
    "https://github.com/tensorflow/addons/issues/2447",
    "a triplet loss divided by the number of positive pairs, of which the batch has none",
    "test whether there are any",
    "born",
    says=("0/0",),
)
def no_positives(probe):
    distances = tf.Variable([1.0, 2.0])
    mask = tf.constant([0.0, 0.0])
    with probe() as rec:
        num_positives = tf.reduce_sum(mask)
        loss = tf.math.truediv(tf.reduce_sum(tf.maximum(distances * mask, 0.0)), num_positives)  # <- here
    return rec
