# from: own
# ask: python
import keras
import tensorflow as tf

import backprobe as bp

keras.utils.set_random_seed(0)
for layer in (keras.layers.Dense(1), keras.layers.Dense(3, activation="tanh"), keras.layers.LayerNormalization()):
    x = tf.random.normal((2, 4))
    layer(x)

    def f(x, layer=layer):
        z = layer(x)
        return tf.reduce_sum(z**2)

    told = str(bp.check(f)(x))
    assert "not its derivative" not in told, told
