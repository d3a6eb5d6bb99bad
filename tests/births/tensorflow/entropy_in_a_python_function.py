# from: https://www.tensorflow.org/api_docs/python/tf/py_function
# ask: explain --nonfinite
# birth: forward
# name: logs
# operands: 0.0
# value: loss
import numpy as np
import tensorflow as tf

tf.random.set_seed(0)
weights = tf.Variable([0.2, 0.5, 0.3])
counts = tf.constant([0.0, 2.0, 1.0])


def rarity(counts):
    given = counts.numpy()
    with np.errstate(divide="ignore"):
        logs = -np.log(given)  # <- here
    return logs


for step in range(2):
    with tf.GradientTape() as tape:
        idf = tf.py_function(rarity, [counts], tf.float32)  # <- here
        loss = tf.reduce_sum(weights * idf)
    gradient = tape.gradient(loss, weights)
    weights.assign_sub(0.1 * gradient)
