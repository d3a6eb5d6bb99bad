# from: https://github.com/tensorflow/tensorflow/issues/39686
# exit: 0
# never: got no gradient|exactly 0|useless|IndexedSlices
"""The gradient of an embedding is sparse (IndexedSlices), is scaled in parts, clipped by the global norm and applied."""

import keras
import tensorflow as tf

keras.utils.set_random_seed(0)
table = tf.Variable(tf.random.normal((50, 4), seed=1), name="table")
head = tf.Variable(tf.random.normal((4, 1), seed=2), name="head")
words, labels = tf.constant([[1, 4, 7], [2, 4, 9]]), tf.constant([[1.0], [0.0]])
for step in range(2):
    sums = [tf.zeros_like(table), tf.zeros_like(head)]
    for part in range(2):
        with tf.GradientTape() as tape:
            logits = tf.reduce_mean(tf.nn.embedding_lookup(table, words[part : part + 1]), 1) @ head
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels[part : part + 1], logits))
        gradients = tape.gradient(loss, [table, head])
        sums = [total + tf.convert_to_tensor(each) / 2.0 for total, each in zip(sums, gradients)]
    clipped, norm = tf.clip_by_global_norm(sums, 1.0)
    for variable, gradient in zip([table, head], clipped):
        variable.assign_sub(0.5 * gradient)
    print(float(norm))
