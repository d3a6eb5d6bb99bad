"""What is tried of scripts in TensorFlow: see ``tests/test_script_experiments.py``."""

import json

import pytest

from commands import forked

SCRIPT = """\
import numpy as np
import tensorflow as tf
tf.random.set_seed(1)
gain, head = tf.Variable([0.5, 1.0, 2.0], name="gain"), tf.Variable(tf.random.normal([3, 1]), name="head")
held = tf.Variable(tf.ones([4, 3]))
x, y = tf.random.normal([4, 3]), tf.random.normal([4, 1])
for step in range(2):
    with tf.GradientTape() as tape:
        {}
        loss = tf.reduce_mean((h @ head - y) ** 2)
    of_gain, of_head = tape.gradient(loss, [gain, head])
    head.assign_sub(0.1 * of_head)
"""


FIT = """\
import keras
import numpy as np
import tensorflow as tf
keras.utils.set_random_seed(0)
class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.enc, self.head = keras.layers.Dense(4), keras.layers.Dense(1)
    def call(self, x):
        h = tf.stop_gradient(self.enc(x))
        return self.head(h)
net = Net()
net.compile(optimizer="sgd", loss="mse")
x, y = np.random.rand(32, 3).astype("float32"), np.ones((32, 1), "float32")
net.fit(x, y, epochs=2, batch_size=8, verbose=0)
"""
CURED = "`{}` at train.py:{}: the gradient of {} arrives; the loss is the same"


def tried_of(text, folder, *options):
    (folder / "train.py").write_text(text)
    words = ["-m", "backprobe", "explain", "--json", *options, "train.py"]
    code, out, err = forked(*words, imported="tensorflow", cwd=folder)
    report = json.loads(next(line for line in out.splitlines() if line.startswith('{"ok"')))
    return [sentence for one in report["findings"] for sentence in one["tried"]], (out, err)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["h = tf.stop_gradient(x * gain)"], CURED.format("h = (x * gain)", 9, "'gain'")),
        (["h = tf.constant(np.tanh((x * gain).numpy()))"], CURED.format("h = tf.math.tanh((x * gain))", 9, "'gain'")),
        (
            ["array = (x * gain).numpy()", "array = array * 2", "h = tf.constant(array)"],
            CURED.format("array = (x * gain)", 9, "'gain'"),
        ),
        (["held.assign(x * gain)", "h = tf.identity(held)"], "with this line bridged, the gradient of 'gain' arrives"),
        (
            ["with tape.stop_recording():", "    h = x * gain"],
            "with this line bridged, the gradient of 'gain' arrives",
        ),
    ],
    ids=["stopped", "numpy", "numpy in steps", "assigned", "tape stopped"],
)
def test_the_gradient_arrives_over_the_line(lines, said, tmp_path):
    tried, told = tried_of(SCRIPT.format("\n        ".join(lines)), tmp_path)
    assert said in tried, told


def test_a_model_that_keras_trains(tmp_path):
    """Its training step is compiled by Keras, and not when it is run for this."""
    tried, told = tried_of(FIT, tmp_path, "--patch", "fix.diff")
    assert CURED.format("h = self.enc(x)", 10, "'net.enc.kernel'") in tried, told
    assert "+        h = self.enc(x)\n" in (tmp_path / "fix.diff").read_text()
