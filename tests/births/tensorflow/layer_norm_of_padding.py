# from: https://github.com/tensorflow/tensorflow/issues/61287
# ask: explain --nonfinite
# birth: forward
# name: h
# operands: a row of 0.0
# value: loss
import keras
import tensorflow as tf

keras.utils.set_random_seed(0)
norm, head = keras.layers.LayerNormalization(epsilon=0.0), keras.layers.Dense(1)
x, y = tf.constant([[1.0, 2.0, 3.0, 5.0], [0.0, 0.0, 0.0, 0.0]]), tf.constant([[1.0], [0.0]])
norm.build(x.shape)
head.build(x.shape)
optimizer = keras.optimizers.SGD(0.1)
for step in range(2):
    with tf.GradientTape() as tape:
        h = norm(x)  # <- here
        loss = tf.reduce_mean((head(h) - y) ** 2)
    variables = norm.trainable_variables + head.trainable_variables
    gradients = tape.gradient(loss, variables)
    optimizer.apply_gradients(zip(gradients, variables))
