# from: https://github.com/keras-team/keras/pull/20743
# ask: python
import keras
import tensorflow as tf

import backprobe as bp

keras.utils.set_random_seed(0)
with keras.RematScope(mode="full"):
    net = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(4, activation="tanh", name="a"),
            keras.layers.Dense(1, name="b"),
        ]
    )
x = tf.random.normal((2, 3), seed=1)
with tf.GradientTape() as tape:
    truth = tf.reduce_sum(net(x) ** 2)
truth = tape.gradient(truth, net.trainable_variables)
assert all(float(tf.norm(g)) > 0 for g in truth)
rec = bp.probe(net, ["a", "b", "a.kernel"], of=lambda y: tf.reduce_sum(y**2))(x)
said = str(bp.explain(rec)) + " ".join(str(rec[name].reason) for name in rec)
assert "no_grad" not in said and "stop_recording" not in said, said
assert float(tf.reduce_max(tf.abs(rec["a.kernel"].grad - truth[0]))) < 1e-6
