# from: https://www.tensorflow.org/guide/function
# exit: 3
# says: aux
# says: loss = tf\.reduce_mean\(\(forward\(x\) \- 1\.0\) \*\* 2\) \+ 0\.1 \* aux\[\-1\]
# never: all \d+ parameters got a gradient
"""A function appends what it computes to a list, which the step reads later: the list holds the graph's own tensors."""

import tensorflow as tf

w = tf.Variable([[0.3], [-0.2]], name="w")
x = tf.constant([[1.0, 2.0], [3.0, -1.0]])
aux = []


@tf.function
def forward(x):
    h = tf.tanh(x @ w)
    aux.append(tf.reduce_mean(h**2))
    return h


for step in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((forward(x) - 1.0) ** 2) + 0.1 * aux[-1]
    w.assign_sub(0.1 * tape.gradient(loss, w))
print(float(loss))
