# from: own
# ask: check PROGRAM:f scale=1.0 --backend tensorflow
# exit: 0
# says: taken by itself, each call has the right derivative \(4 calls checked
# never: not its derivative|note:
# A layer of Keras computes in single precision whatever it is given.
import keras
import tensorflow as tf

keras.utils.set_random_seed(0)
layer = keras.layers.Dense(1)
x = tf.random.normal((2, 4))
layer(x)


def f(scale):
    z = layer(x * scale)
    return tf.reduce_sum(z**2)
