# from: own
# ask: check PROGRAM:loss_of x=randn(2,4)
# never: not its derivative
# never: wrong
import keras
import tensorflow as tf

keras.utils.set_random_seed(0)
layer = keras.layers.Dense(3)
layer(tf.zeros((1, 4)))


def loss_of(x):
    z = layer(x)
    return tf.reduce_sum(z**2)


if __name__ == "__main__":
    x = tf.random.normal((2, 4), seed=1)
    analytic, numeric = tf.test.compute_gradient(loss_of, [x])
    print(abs(analytic[0] - numeric[0]).max())
