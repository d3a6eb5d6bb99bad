"""tf.while_loop, tf.scan, tf.map_fn and tf.cond: loops that TensorFlow itself runs."""

import tensorflow as tf
from in_tensorflow import by

FRAMEWORK, LIBRARIES = "TensorFlow", ("tensorflow",)


# https://www.tensorflow.org/api_docs/python/tf/while_loop
def power(x, rate):
    def condition(i, y):
        return i < 3

    def body(i, y):
        grown = y * rate + tf.sin(y)
        return i + 1, grown

    _, y = tf.while_loop(condition, body, [tf.constant(0), x])
    total = tf.reduce_sum(y**2)
    return total


# https://www.tensorflow.org/api_docs/python/tf/scan
def recurrence(w, xs):
    def turn(h, x):
        mixed = tf.tanh(h * w + x)
        return mixed

    path = tf.scan(turn, xs, initializer=tf.zeros(()))
    last = path[-1]
    return last + tf.reduce_sum(path**2)


# https://www.tensorflow.org/api_docs/python/tf/map_fn
def rows(matrix, scale):
    normed = tf.map_fn(lambda row: row / (1.0 + tf.norm(row)) * scale, matrix)
    return tf.reduce_sum(normed**2)


# https://www.tensorflow.org/api_docs/python/tf/cond, and TensorArray
@tf.function
def gathered(x, w):
    held = tf.TensorArray(tf.float32, size=3)
    for i in tf.range(3):
        step = x[i] * w
        if step > 0:
            step = tf.sqrt(step)
        held = held.write(i, step)
    stacked = held.stack()
    return tf.reduce_sum(stacked * tf.constant([1.0, 2.0, 3.0]))


# planted
def cut(x, rate):
    def body(i, y):
        fixed = tf.stop_gradient(rate)  # <- cut
        return i + 1, y * fixed

    _, y = tf.while_loop(lambda i, y: i < 3, body, [tf.constant(0), x])
    return tf.reduce_sum(y)


def nan(x, rate):
    def body(i, y):
        logs = tf.math.log(y - 100.0)  # <- nan
        return i + 1, logs * rate

    _, y = tf.while_loop(lambda i, y: i < 2, body, [tf.constant(0), x])
    return tf.reduce_sum(y)


# asked
def given():
    return tf.constant([1.0, -2.0]), tf.constant(0.5)


def test_while_loop(ask):
    rec = ask.function(power, given)
    ask.gradients(rec, by(power, *given()))
    ask.gradients(rec, {"y": 2 * rec["y"].value, "/body#2:grown": 2 * rec["y"].value})
    ask.names(rec, "x", "rate", "y", "total", "/body#0:grown")
    ask.statuses(rec, {"/body#0:i": "not_float"})
    ask.clean(rec)
    ask.works("`tf.while_loop`: what each turn binds")


def test_scan(ask):
    inputs = tf.constant(0.7), tf.constant([0.5, -0.3, 0.1])
    rec = ask.function(recurrence, lambda: inputs)
    ask.gradients(rec, by(recurrence, *inputs) | {"last": 1.0})
    ask.names(rec, "w", "xs", "path", "last", "/turn#1:mixed")
    ask.clean(rec)
    ask.works("`tf.scan` and `tf.map_fn`")


def test_map_fn(ask):
    inputs = tf.constant([[3.0, 4.0], [1.0, 0.5]]), tf.constant(2.0)
    rec = ask.function(rows, lambda: inputs)
    ask.gradients(rec, by(rows, *inputs) | {"normed": 2 * rec["normed"].value})
    ask.clean(rec)


def test_autograph(ask):
    inputs = tf.constant([1.0, -2.0, 4.0]), tf.constant(2.0)
    rec = ask.function(gathered, lambda: inputs)
    right = {
        "x": tf.constant([0.5 * 2 / 2**0.5, 2 * 2.0, 3 * 0.5 * 2 / 8**0.5]),
        "stacked": tf.constant([1.0, 2.0, 3.0]),
    }
    ask.gradients(rec, right)
    ask.names(rec, "x", "w", "step#0", "stacked")
    ask.clean(rec)
    ask.works("a `tf.function` with loops and branches of tensors, and a `TensorArray`")


def test_planted(ask):
    ask.cut(ask.function(cut, given), cut)
    ask.nan(ask.function(nan, given, nonfinite=True), nan)


def compiled(around):
    """A block around a loop that stays compiled."""
    x, w = tf.constant([1.0, -2.0, 4.0]), tf.constant(2.0)
    with around() as seen:
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            score = gathered(x, w)
        by_x, by_w = tape.gradient(score, [x, w])
    return seen, score, by_x, by_w


def test_block(ask):
    rec = ask.block(compiled)
    ask.gradients(rec, {"score": 1.0, "w": 0.5 * (2**-0.5) - 4.0 + 3 * 0.5 * 4 / 8**0.5})
    ask.notes(rec, "gathered|followed")
    ask.clean(rec)
    ask.refuses("what a compiled `tf.function` binds, in a block: a note")
