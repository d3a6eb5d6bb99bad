"""A training in TensorFlow whose loss grows from step to step until it overflows, in a block and in a script."""

import numpy as np
import tensorflow as tf

import backprobe as bp
from commands import invoked

REMEDY = "a smaller learning rate; or the optimizer's clipnorm=1.0"
SCRIPT = """\
import numpy as np
import tensorflow as tf

numbers = np.random.default_rng(0)
x, y = (tf.constant(numbers.normal(size=shape), tf.float32) for shape in ((64, 3), (64, 1)))
tf.keras.utils.set_random_seed(0)
model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(50.0)
for step in range(20):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
"""


def trained(lr, steps):
    numbers = np.random.default_rng(0)
    x, y, w, v = (tf.constant(numbers.normal(size=s), tf.float32) for s in ((64, 3), (64, 1), (3, 16), (16, 1)))
    w, v = tf.Variable(w), tf.Variable(v)
    with bp.probe(nonfinite=True) as rec:
        for _ in range(steps):
            with tf.GradientTape() as tape:
                out = tf.nn.relu(x @ w) @ v
                loss = tf.reduce_mean((out - y) ** 2)
            for variable, gradient in zip([w, v], tape.gradient(loss, [w, v]), strict=True):
                variable.assign_sub(lr * gradient)
    return bp.explain(rec)


def test_a_block_of_several_steps():
    (first, *_) = trained(50.0, 8).findings
    assert any(fact.startswith("the training diverges: in the steps before, 'loss' was ") for fact in first.facts)
    assert first.remedy == REMEDY
    assert trained(0.001, 8).ok


def test_a_script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    code, out, _ = invoked("explain", "--nonfinite", "train.py")
    first = " ".join(out.split("  2. ")[0].split())
    assert code == 1 and "the training diverges: in the steps before, 'loss' was " in first and REMEDY in first
