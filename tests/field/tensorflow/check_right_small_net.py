# from: own
# ask: check PROGRAM:loss_of x=randn(3,6)
# never: not its derivative
# never: so large
# never: wrong
import keras
import tensorflow as tf

keras.utils.set_random_seed(3)
hidden = keras.layers.Dense(5, activation="gelu")
norm = keras.layers.LayerNormalization()
out = keras.layers.Dense(2, activation="softmax")
out(norm(hidden(tf.zeros((1, 6)))))


def loss_of(x):
    h = norm(hidden(x))
    p = out(h)
    return -tf.reduce_sum(tf.math.log(p[:, 0]))


if __name__ == "__main__":
    analytic, numeric = tf.test.compute_gradient(loss_of, [tf.random.normal((3, 6), seed=1)])
    print(abs(analytic[0] - numeric[0]).max())
