# from: own
# ask: python
import keras
import tensorflow as tf

import backprobe as bp

with keras.RematScope(mode="full"):
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(4, name="a", activation="tanh"), keras.layers.Dense(1, name="b")]
    )
x = tf.random.normal((2, 3), seed=1)
rec = bp.probe(model, ["a", "b"], of=lambda y: tf.reduce_sum(y**2))(x)
for told in (str(rec["b"].reason), str(bp.explain(rec, "b")), str(rec["a"].reason)):
    assert "no_grad" not in told, told
    assert "stopped" not in told, told
