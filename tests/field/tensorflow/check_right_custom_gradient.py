# from: own
# ask: check PROGRAM:loss_of x='[0.5, -1.0, 2.0]'
# never: wrong
import tensorflow as tf


@tf.custom_gradient
def soft(x):
    e = tf.exp(x)

    def back(upstream):
        return upstream * (1 - 1 / (1 + e))

    return tf.math.log(1 + e), back


def loss_of(x):
    y = soft(x)
    return tf.reduce_sum(y**2)


if __name__ == "__main__":
    analytic, numeric = tf.test.compute_gradient(loss_of, [tf.constant([0.5, -1.0, 2.0])])
    print(analytic, numeric)
