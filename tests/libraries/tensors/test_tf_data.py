"""tf.data: datasets that are looped over, in Python and in functions."""

import tensorflow as tf
from in_tensorflow import by

FRAMEWORK, LIBRARIES = "TensorFlow", ("tensorflow",)
ROWS = tf.constant([[1.0, 2.0], [0.5, -1.0], [-1.5, 0.25], [2.0, 1.0]])


# https://www.tensorflow.org/guide/data
def summed(w):
    total = tf.constant(0.0)
    for batch in tf.data.Dataset.from_tensor_slices(ROWS).batch(2):
        out = tf.linalg.matvec(batch, w)
        total += tf.reduce_sum(out**2)
    return total


# https://www.tensorflow.org/api_docs/python/tf/data/Dataset#map: what is mapped is no part of the gradient
def mapped(w, scale):
    dataset = tf.data.Dataset.from_tensor_slices(ROWS).map(lambda row: row * 2.0)
    total = tf.constant(0.0)
    for row in dataset:
        part = tf.tensordot(row, w, 1) * scale
        total = total + tf.tanh(part)
    return total


# https://www.tensorflow.org/guide/function: a training loop within a function
def trained(around):
    w = tf.Variable([0.5, -0.25], name="w")
    dataset = tf.data.Dataset.from_tensor_slices((ROWS, tf.constant([1.0, 0.0, -1.0, 0.5]))).batch(2)

    @tf.function
    def epoch():
        last = tf.constant(0.0)
        for x, y in dataset:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((tf.linalg.matvec(x, w) - y) ** 2)
            w.assign_sub(0.1 * tape.gradient(loss, w))
            last = loss
        return last

    with around() as seen:
        final = epoch()
    return seen, final, w.read_value()


def stepped(around):
    w = tf.Variable([0.5, -0.25], name="w")
    dataset = tf.data.Dataset.from_tensor_slices((ROWS, tf.constant([1.0, 0.0, -1.0, 0.5]))).batch(4)
    with around() as seen:
        for x, y in dataset:
            with tf.GradientTape() as tape:
                out = tf.linalg.matvec(x, w)
                loss = tf.reduce_mean((out - y) ** 2)
            by_w = tape.gradient(loss, w)
    return seen, loss, by_w


# planted: the dataset holds numbers, so that what it was made of gets no gradient
def cut(w):
    scaled = ROWS * w
    total = tf.constant(0.0)
    for row in tf.data.Dataset.from_tensor_slices(scaled):  # <- cut
        total += tf.reduce_sum(row**2)
    return total + 0.1 * tf.reduce_sum(w**2)


def nan(w):
    total = tf.constant(0.0)
    for row in tf.data.Dataset.from_tensor_slices(ROWS):
        part = tf.sqrt(tf.tensordot(row, w, 1))  # <- nan
        total += part
    return total


# asked
def given():
    return (tf.constant([0.5, -0.25]),)


def test_summed(ask):
    rec = ask.function(summed, given)
    (w,) = given()
    right = 2 * tf.linalg.matvec(ROWS, tf.linalg.matvec(ROWS, w), transpose_a=True)
    ask.gradients(
        rec, {"w": right, "out#0": 2 * tf.linalg.matvec(ROWS[:2], w), "out#1": 2 * tf.linalg.matvec(ROWS[2:], w)}
    )
    ask.gradients(rec, by(summed, w) | {"total#1": 1.0})
    ask.names(rec, "w", "batch#0", "out#1", "total#2")
    ask.clean(rec)
    ask.works("a loop over a dataset in Python: a binding for each batch")


def test_mapped(ask):
    inputs = tf.constant([0.5, -0.25]), tf.constant(0.3)
    rec = ask.function(mapped, lambda: inputs)
    ask.gradients(rec, by(mapped, *inputs) | {"total#4": 1.0})
    ask.names(rec, "row#3", "part#0")
    ask.clean(rec)
    ask.works("`map`, of whose function no value is a part of the gradient")


def test_blocks(ask):
    rec = ask.block(stepped)
    w = tf.constant([0.5, -0.25])
    miss = tf.linalg.matvec(ROWS, w) - tf.constant([1.0, 0.0, -1.0, 0.5])
    ask.gradients(rec, {"w": tf.linalg.matvec(ROWS, miss, transpose_a=True) / 2, "out": miss / 2, "loss": 1.0})
    ask.names(rec, "x", "y", "out", "by_w")
    ask.clean(rec)
    rec = ask.block(trained)
    ask.notes(rec, "epoch|follow")
    ask.clean(rec)
    ask.works("a block around a step that loops over batches")
    ask.refuses("a training loop within a `tf.function`: a note")


def test_planted(ask):
    ask.cut(ask.function(cut, given), cut)
    ask.nan(ask.function(nan, given, nonfinite=True), nan)
