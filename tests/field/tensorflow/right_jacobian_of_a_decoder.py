# from: https://www.tensorflow.org/guide/advanced_autodiff
# exit: 0
# never: got no gradient|exactly 0|useless|not trained
"""The volume that a decoder spans is kept near one: a loss of its Jacobian, taken by an inner tape."""

import keras
import tensorflow as tf

keras.utils.set_random_seed(0)
decoder = keras.Sequential(
    [keras.Input((2,)), keras.layers.Dense(8, activation="softplus"), keras.layers.Dense(3, use_bias=False)]
)
optimizer = keras.optimizers.SGD(0.01)
z = tf.random.normal((5, 2), seed=1)
for step in range(2):
    with tf.GradientTape() as outer:
        with tf.GradientTape(watch_accessed_variables=False) as inner:
            inner.watch(z)
            decoded = decoder(z)
        jacobian = inner.batch_jacobian(decoded, z)
        metric = tf.matmul(jacobian, jacobian, transpose_a=True)
        loss = tf.reduce_mean((tf.linalg.det(metric) - 1.0) ** 2)
    gradients = outer.gradient(loss, decoder.trainable_variables)
    optimizer.apply_gradients(zip(gradients, decoder.trainable_variables))
print(float(loss))
