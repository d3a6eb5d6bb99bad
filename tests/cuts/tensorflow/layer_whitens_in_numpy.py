# from: own
# ask: explain
# kind: left_framework
# name: project
# missing: gradients[0]
# moves: net.project.kernel.assign(net.project.kernel * 1.5)
"""A layer of Keras whitens its input with NumPy's linear algebra."""

import keras
import numpy as np
import tensorflow as tf
from keras import ops


class Whiten(keras.layers.Layer):
    def call(self, inputs):
        rows = ops.convert_to_numpy(inputs)  # <- here
        centred = rows - rows.mean(0)
        _, _, axes = np.linalg.svd(centred, full_matrices=False)
        return ops.convert_to_tensor(centred @ axes.T)


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.project = keras.layers.Dense(3, name="project")
        self.whiten = Whiten()
        self.out = keras.layers.Dense(1, name="out")

    def call(self, x):
        h = self.project(x)
        white = self.whiten(h)  # <- here
        return self.out(white)


keras.utils.set_random_seed(0)
net, x, y = Net(), tf.random.normal([10, 5]), tf.random.normal([10, 1])
net(x)
optimizer = keras.optimizers.SGD(0.1)
for step in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((net(x) - y) ** 2)
    sources = net.trainable_variables
    gradients = tape.gradient(loss, sources)
    optimizer.apply_gradients((g, v) for g, v in zip(gradients, sources, strict=True) if g is not None)
