"""Ragged and sparse tensors: rows of different lengths."""

import tensorflow as tf

import backprobe as bp

FRAMEWORK, LIBRARIES = "TensorFlow", ("tensorflow",)
SPLITS = tf.constant([0, 2, 3, 5])


# https://www.tensorflow.org/guide/ragged_tensor
def pooled(values, w):
    ragged = tf.RaggedTensor.from_row_splits(values, SPLITS)
    scaled = ragged * w
    sums = tf.reduce_sum(scaled, axis=1)
    return tf.reduce_sum(sums**2)


# (embeddings of sentences of different lengths)
def sentences(table, query):
    words = tf.ragged.constant([[1, 0], [2], [0, 3, 1]], dtype=tf.int32)
    embedded = tf.gather(table, words)
    mean = tf.reduce_mean(embedded, axis=1)
    scores = tf.linalg.matvec(mean, query)
    return tf.reduce_sum(tf.tanh(scores))


# (to a dense tensor, and back)
def padded(values, w):
    ragged = tf.RaggedTensor.from_row_lengths(values, [2, 1, 2])
    dense = ragged.to_tensor(default_value=0.0)
    mixed = dense * w
    back = tf.RaggedTensor.from_tensor(mixed, lengths=[2, 1, 2])
    flat = back.flat_values
    return tf.reduce_sum(flat**3)


def mapped(values, w):
    ragged = tf.RaggedTensor.from_row_splits(values, SPLITS)
    squashed = tf.ragged.map_flat_values(tf.tanh, ragged * w)
    return tf.reduce_sum(squashed.flat_values)


# https://www.tensorflow.org/guide/sparse_tensor
def sparse(values, dense):
    matrix = tf.SparseTensor([[0, 0], [1, 2], [2, 1], [2, 2], [0, 1]], values, [3, 3])
    product = tf.sparse.sparse_dense_matmul(tf.sparse.reorder(matrix), dense)
    return tf.reduce_sum(product**2)


# planted
def cut(values, w):
    ragged = tf.RaggedTensor.from_row_splits(values * w, SPLITS)
    fixed = tf.ragged.constant(ragged.to_list())  # <- cut
    return tf.reduce_sum(fixed.flat_values * values)


def nan(values, w):
    ragged = tf.RaggedTensor.from_row_splits(values, tf.constant([0, 2, 2, 5]))
    mean = tf.reduce_mean(ragged, axis=1)  # <- nan
    return tf.reduce_sum(mean * w)


# asked
def given():
    return tf.constant([1.0, 2.0, -1.0, 0.5, 3.0]), tf.constant(2.0)


def test_pooled(ask):
    rec = ask.function(pooled, given)
    values, w = given()
    sums = tf.constant([3.0, -1.0, 3.5]) * w
    each = tf.gather(2 * sums, [0, 0, 1, 2, 2])
    ask.gradients(rec, {"values": each * w, "w": tf.reduce_sum(each * values), "sums": 2 * sums})
    ask.gradients(rec, {"scaled.flat_values": each})
    ask.names(rec, "values", "w", "sums", "ragged.flat_values", "scaled.flat_values")
    ask.clean(rec)
    ask.works("sums over ragged rows: the numbers of a ragged tensor are its `flat_values`")


def test_sentences(ask):
    inputs = tf.reshape(tf.range(8.0), (4, 2)) / 8, tf.constant([1.0, -0.5])
    rec = ask.function(sentences, lambda: inputs)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        result = sentences(*inputs)
    table, query = tape.gradient(result, inputs)
    ask.gradients(
        rec, {"table": tf.convert_to_tensor(table), "query": query, "scores": 1 - tf.tanh(rec["scores"].value) ** 2}
    )
    ask.clean(rec)
    ask.works("`tf.gather` with ragged indices")


def test_padded(ask):
    rec = ask.function(padded, given)
    values, w = given()
    ask.gradients(rec, {"values": 3 * (values * w) ** 2 * w, "flat": 3 * (values * w) ** 2})
    ask.clean(rec)
    rec = ask.function(mapped, given)
    ask.gradients(rec, {"values": (1 - tf.tanh(values * w) ** 2) * w})
    ask.clean(rec)
    ask.works("`to_tensor`, `from_tensor`, `map_flat_values`")


def test_sparse(ask):
    inputs = given()[0], tf.reshape(tf.range(9.0), (3, 3)) / 9
    rec = ask.function(sparse, lambda: inputs)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        result = sparse(*inputs)
    by_values, by_dense = tape.gradient(result, inputs)
    ask.gradients(rec, {"values": by_values, "dense": by_dense, "product": 2 * rec["product"].value})
    ask.clean(rec)
    ask.works("`sparse_dense_matmul`")


def test_planted(ask):
    ask.cut(ask.function(cut, given), cut)
    ask.nan(ask.function(nan, given, nonfinite=True), nan)


def test_block(ask):
    def stepped(around):
        w = tf.Variable(2.0, name="w")
        values = given()[0]
        with around() as seen:
            with tf.GradientTape() as tape:
                loss = pooled(values, w)
            by_w = tape.gradient(loss, w)
        return seen, loss, by_w

    rec = ask.block(stepped)
    ask.gradients(rec, {"w": rec["by_w"].value, "loss": 1.0})
    ask.clean(rec)
    ask.that(isinstance(rec, bp.Recording), "a recording")
