# from: https://www.tensorflow.org/guide/sparse_tensor
# ask: python
import tensorflow as tf

import backprobe as bp

v, w, table = tf.Variable([1.0, 2.0, 3.0]), tf.Variable(tf.ones([4, 2])), tf.Variable(tf.ones([5, 2]))


def values(v, w):
    m = tf.SparseTensor([[0, 0], [0, 3], [1, 1]], v * 2.0, [2, 4])
    n = tf.sparse.map_values(tf.square, m)
    return tf.reduce_sum(tf.sparse.sparse_dense_matmul(n, w))


rec = bp.probe(values)(tf.constant([1.0, 2.0, 3.0]), tf.ones([4, 2]))
assert rec["m.values"].grad.numpy().tolist() == [8.0, 16.0, 24.0], rec
assert rec["n.values"].grad.numpy().tolist() == [2.0, 2.0, 2.0], rec

with bp.probe() as rec:
    rows = tf.RaggedTensor.from_row_splits(v * 1.0, [0, 2, 3])
    scaled = rows * 3.0
    loss = tf.reduce_sum(scaled)
assert rec["scaled.flat_values"].grad.numpy().tolist() == [1.0, 1.0, 1.0], rec
assert rec["rows.flat_values"].grad.numpy().tolist() == [3.0, 3.0, 3.0], rec

with bp.probe() as rec:
    with tf.GradientTape() as tape:
        rows = tf.nn.embedding_lookup(table, [0, 3])
        loss = tf.reduce_sum(rows**2)
    slices = tape.gradient(loss, table)
assert isinstance(slices, tf.IndexedSlices)
assert rec["slices.values"].value.numpy().tolist() == [[2.0, 2.0], [2.0, 2.0]], rec
assert rec["table"].grad is not None
assert bp.explain(rec).ok
