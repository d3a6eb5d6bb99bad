# from: https://github.com/keras-team/keras/issues/20964
# never: no_grad
# never: stop_recording
# never: got no gradient
import keras
import tensorflow as tf

keras.utils.set_random_seed(0)
with keras.RematScope(mode="full"):
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(1)]
    )
optimizer = keras.optimizers.SGD(0.1)
x, y = tf.random.normal((8, 3), seed=1), tf.ones((8, 1))
for step in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
print([g is not None and float(tf.norm(g)) > 0 for g in gradients])
