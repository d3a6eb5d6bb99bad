# from: own
# truth: healthy: a batch norm after a convolution with a bias
# kind: healthy
import keras
import tensorflow as tf

tf.random.set_seed(0)
PROBED = keras.Sequential(
    [
        keras.Input((10, 10, 1)),
        keras.layers.Conv2D(4, 3),
        keras.layers.BatchNormalization(),
        keras.layers.ReLU(),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(3),
    ]
)
LABELS = tf.constant([0, 1, 2, 1, 0, 2])
GIVEN = (tf.random.normal([6, 10, 10, 1]),)
OPTIONS = {"of": lambda y: tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=LABELS, logits=y))}
