# from: https://github.com/keras-team/keras/issues/4175
# exit: 1
# says: [Rr]ound
import keras
import tensorflow as tf

keras.utils.set_random_seed(0)
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, activation="sigmoid")])


def hits(y_true, y_pred):
    rounded = tf.round(y_pred)  # <- here
    return tf.reduce_mean(tf.abs(y_true - rounded))


x, y = tf.random.normal((8, 3), seed=1), tf.ones((8, 1))
with tf.GradientTape() as tape:
    loss = hits(y, model(x))
print(float(loss), tape.gradient(loss, model.trainable_variables))
