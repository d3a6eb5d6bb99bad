"""tf.recompute_grad, and Keras's RematScope: values that are computed again in backward."""

import keras
import tensorflow as tf
from in_tensorflow import by

FRAMEWORK, LIBRARIES = "TensorFlow", ("tensorflow", "keras")
X = tf.constant([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])


# https://www.tensorflow.org/api_docs/python/tf/recompute_grad
def inner(h, w):
    product = tf.matmul(h, w)
    return tf.tanh(product)


def recomputed(x, w1, w2):
    h = tf.recompute_grad(inner)(x, w1)
    out = tf.recompute_grad(inner)(h, w2)
    return tf.reduce_sum(out**2)


def plain(x, w1, w2):
    return tf.reduce_sum(inner(inner(x, w1), w2) ** 2)


# https://keras.io/api/utils/ (keras.RematScope)
def network():
    keras.utils.set_random_seed(1)
    with keras.RematScope(mode="full"):
        layers = [keras.layers.Dense(4, activation="tanh", name="first"), keras.layers.Dense(1, name="second")]
        model = keras.Sequential([keras.Input((3,)), *layers])
    return model


def trained(around):
    model, optimizer = network(), keras.optimizers.SGD(0.05)
    with around(model, optimizer=optimizer) as seen:
        for _ in range(20):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(X) - 1.0) ** 2)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return seen, loss, [one.numpy() for one in model.trainable_variables]


# a function that is given Variables, not tensors
def of_variables(around):
    w = tf.Variable([[0.5], [-0.25], [0.1]], name="w")

    @tf.recompute_grad
    def layer(x):
        return tf.tanh(tf.matmul(x, w))

    with around() as seen:
        with tf.GradientTape() as tape:
            out = layer(X)
            loss = tf.reduce_sum(out**2)
        by_w = tape.gradient(loss, w)
    return seen, loss, by_w


# planted
def cut_inner(h, w):
    fixed = tf.stop_gradient(tf.matmul(h, w))
    return tf.tanh(fixed)


def cut(x, w1, w2):
    h = tf.recompute_grad(cut_inner)(x, w1)  # <- cut
    return tf.reduce_sum(tf.matmul(h, w2))


def nan_inner(h, w):
    logs = tf.math.log(tf.matmul(h, w) - 100.0)  # <- nan
    return tf.tanh(logs)


def nan(x, w1, w2):
    h = tf.recompute_grad(nan_inner)(x, w1)
    return tf.reduce_sum(tf.matmul(h, w2))


# asked
def given():
    return X, tf.constant([[0.1, 0.2], [0.3, -0.4], [0.5, 0.6]]), tf.constant([[0.7], [-0.8]])


def test_recomputed(ask):
    rec = ask.function(recomputed, given)
    ask.gradients(rec, by(plain, *given()) | {"out": 2 * rec["out"].value})
    h, out, w2 = rec["h"].value, rec["out"].value, given()[2]
    ask.gradients(rec, {"h": tf.matmul(2 * out * (1 - out**2), w2, transpose_b=True)})
    ask.names(rec, "x", "w1", "w2", "h", "out")
    ask.that(h.shape == (2, 2), "h")
    ask.clean(rec)
    ask.works("`tf.recompute_grad`: what goes in and comes out")
    said = [str(one) for one in [*rec.notes, *rec]]
    ask.that(any("inner" in one for one in said), f"no word of inner: {said}")


def test_of_variables(ask):
    rec = ask.block(of_variables)
    w = tf.constant([[0.5], [-0.25], [0.1]])
    out = tf.tanh(tf.matmul(X, w))
    ask.gradients(rec, {"out": 2 * out, "w": tf.matmul(X, 2 * out * (1 - out**2), transpose_a=True)})
    ask.clean(rec)
    ask.works("functions that read Variables, in a block")


def test_remat_scope(ask):
    model = network()
    rec = ask.function(lambda x: tf.reduce_sum(model(x) ** 2), lambda: (X,))
    ask.gradients(rec, {"x": by(lambda x: tf.reduce_sum(model(x) ** 2), X)["x"]})
    import backprobe as bp

    rec = bp.probe(model, of=lambda y: tf.reduce_sum(y**2))(X)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(X) ** 2)
    right = dict(
        zip(
            ("first.kernel", "first.bias", "second.kernel", "second.bias"),
            tape.gradient(loss, model.trainable_variables),
            strict=True,
        )
    )
    ask.gradients(rec, right)
    ask.names(rec, "first", "second", "first.kernel")
    ask.clean(rec)
    last = ask.watched(trained)
    ask.rows(last, "first.kernel", "second", "second.kernel")
    ask.works("`keras.RematScope`: layers and weights, and `bp.watch` over 20 steps")


def test_planted(ask):
    ask.cut(ask.function(cut, given), cut)
    ask.nan(ask.function(nan, given, nonfinite=True), nan_inner)
