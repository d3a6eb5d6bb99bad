# from: own
# truth: healthy: attention whose keys have a bias
# kind: healthy
import keras
import tensorflow as tf

tf.random.set_seed(0)


class Block(keras.Model):
    def __init__(self):
        super().__init__()
        self.attend = keras.layers.MultiHeadAttention(2, 4)
        self.norm, self.out = keras.layers.LayerNormalization(), keras.layers.Dense(1)

    def call(self, x):
        return self.out(self.norm(x + self.attend(x, x)))


PROBED = Block()
GIVEN = (tf.random.normal([4, 5, 8]),)
PROBED(*GIVEN)
OPTIONS = {"of": lambda y: tf.reduce_mean(tf.square(y - 1.0))}
