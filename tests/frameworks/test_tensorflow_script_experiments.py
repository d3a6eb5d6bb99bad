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


BOTH = "`h = (x * gain)` at train.py:9 and `{}` at train.py:{}: the gradient of 'gain' arrives; the loss is the same"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            ["h = tf.stop_gradient(x * gain)", "k = tf.stop_gradient(tf.tanh(h))", "h = k * 2"],
            BOTH.format("k = tf.tanh(h)", 10),
        ),
        (
            [
                "h = tf.stop_gradient(x * gain)",
                "mean = float(tf.reduce_mean(h))",
                "k = tf.stop_gradient(h)",
                "h = k + 1",
            ],
            BOTH.format("k = h", 11),
        ),
        (
            ["h = tf.stop_gradient(x * gain)", "k = int(tf.reduce_sum(h))", "h = tf.ones([4, 3]) * k"],
            "with this line and train.py:10 bridged, the gradient of 'gain' arrives",
        ),
    ],
    ids=["stopped twice", "and a number for people", "and an integer"],
)
def test_a_second_cut_behind_the_line_is_followed(lines, said, tmp_path):
    tried, told = tried_of(SCRIPT.format("\n        ".join(lines)), tmp_path)
    assert said in tried, told


def test_a_second_cut_in_a_model_that_keras_trains(tmp_path):
    text = FIT.replace("return self.head(h)", "k = tf.stop_gradient(tf.nn.elu(h))\n        return self.head(k)")
    tried, told = tried_of(text, tmp_path, "--patch", "fix.diff")
    both = "`h = self.enc(x)` at train.py:10 and `k = tf.nn.elu(h)` at train.py:11"
    assert f"{both}: the gradient of 'net.enc.kernel' arrives; the loss is the same" in tried, told
    assert "+        k = tf.nn.elu(h)\n" in (tmp_path / "fix.diff").read_text()


def test_zeros_that_come_back_through_a_python_function(tmp_path):
    """TensorFlow differentiates it once: at the pass of the program."""
    (tmp_path / "train.py").write_text(
        SCRIPT.format("h = tf.py_function(lambda u: np.tanh(u), [x * gain], tf.float32)")
    )
    code, out, err = forked("-m", "backprobe", "explain", "--json", "train.py", imported="tensorflow", cwd=tmp_path)
    (found,) = json.loads(next(line for line in out.splitlines() if line.startswith('{"ok"')))["findings"]
    assert (found["kind"], found["source"]["line"]) == ("own_gradient", 9), err
    assert "py_function" in found["headline"]


def test_a_model_that_keras_trains(tmp_path):
    """Its training step is compiled by Keras, and not when it is run for this."""
    tried, told = tried_of(FIT, tmp_path, "--patch", "fix.diff")
    assert CURED.format("h = self.enc(x)", 10, "'net.enc.kernel'") in tried, told
    assert "+        h = self.enc(x)\n" in (tmp_path / "fix.diff").read_text()
