# from: https://github.com/tensorflow/tensorflow/issues/75351
# exit: 1
# says: [Cc]ast|integer|int32
import tensorflow as tf

tf.random.set_seed(0)
table = tf.Variable(tf.random.normal((10, 3), seed=1), name="table")
where = tf.Variable([2.0, 5.0], name="where")
with tf.GradientTape() as tape:
    rows = tf.cast(where, tf.int32)  # <- here
    looked_up = tf.gather(table, rows)
    loss = tf.reduce_sum(looked_up**2)
by_table, by_where = tape.gradient(loss, [table, where])
print(type(by_table).__name__, by_where)
