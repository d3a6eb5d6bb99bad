"""A tape that gives None for what no operation computed, or for what it was told to watch too late."""

import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import backprobe as bp
from commands import invoked, printed, unplaced

LATE = """\
import tensorflow as tf

def slope(x):
    with tf.GradientTape() as tape:
        h = tf.sin(x)
        y = tf.reduce_sum(h * h)
        WATCH
    return tape.gradient(y, x)

print(slope(tf.constant([1.0, 2.0])))
"""
CONVERTED = """\
import tensorflow as tf

class Net(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = tf.keras.layers.Dense(1)
        self.scale = self.add_weight(shape=(), initializer="ones", name="scale")

    def call(self, x):
        scale = float(self.scale)
        return self.dense(x) * scale

net, optimizer = Net(), tf.keras.optimizers.SGD(0.1)
for step in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(net(tf.ones((4, 3))) ** 2)
    gradients = tape.gradient(loss, net.trainable_variables)
    optimizer.apply_gradients(zip(gradients, net.trainable_variables))
"""


def explained(text, tmp_path, monkeypatch):
    path = tmp_path / "train.py"
    path.write_text(text)
    monkeypatch.setattr(sys, "argv", [str(path)])
    return invoked("explain", str(path))


def test_a_script_that_watches_when_all_is_computed(tmp_path, monkeypatch):
    out = printed(explained(LATE.replace("WATCH", "tape.watch(x)"), tmp_path, monkeypatch), 1)
    assert "what was differentiated had been computed before that tape watched it" in out
    assert "call tape.watch(x) in the tape before its first use" in out


def test_a_script_that_watches_in_time_or_never(tmp_path, monkeypatch):
    in_time = LATE.replace("WATCH", "pass").replace("        h = ", "        tape.watch(x)\n        h = ")
    assert "gave None" not in "".join(explained(in_time, tmp_path, monkeypatch)[1:])
    never = "".join(explained(LATE.replace("WATCH", "pass"), tmp_path, monkeypatch)[1:])
    assert "which it does not watch" in never and "had been computed before" not in never


@pytest.mark.filterwarnings("ignore:Gradients do not exist:UserWarning")
def test_a_variable_that_becomes_a_number_is_said_once(tmp_path, monkeypatch):
    _, out, _ = explained(CONVERTED, tmp_path, monkeypatch)
    assert "`float(self.scale)` turns `self.scale` into Python numbers" in unplaced(out)
    assert "net.scale" in out
    assert "taken out of TensorFlow" not in out


def by_numpy(y, p):
    return tf.constant(np.mean((p - y) ** 2))


def of_numbers(y, p):
    return tf.reduce_mean(np.asarray(p) * 2.0)


def network(loss):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, name="out")])
    model.compile("sgd", loss=loss, run_eagerly=True)
    return model


@pytest.mark.parametrize("loss", [by_numpy, of_numbers])
def test_a_loss_that_numpy_computes(loss):
    model = network(loss)
    with pytest.raises(ValueError, match="No gradients provided"), bp.probe(model) as rec:
        model.fit(np.ones((4, 3), "float32"), np.zeros((4, 1), "float32"), verbose=0)
    (found,) = bp.explain(rec).of_kind("constant_target")
    assert found.headline.startswith(
        "a tape gave None for 'out.kernel': no operation computed what was differentiated from a trainable Variable"
    )
    assert "with bp.probe() as rec: around this line" in found.remedy
    model = network(loss)  # which that says to do
    with pytest.raises(ValueError, match="No gradients provided"), bp.probe() as rec:
        model.fit(np.ones((4, 3), "float32"), np.zeros((4, 1), "float32"), verbose=0)
    report = bp.explain(rec)
    assert any(one.source is not None and one.source.text.strip().startswith("return tf.") for one in report.findings)
    assert not report.of_kind("constant_target")


def test_a_loss_from_before_the_block_is_not_said_to_be_a_constant():
    w = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        loss = w * w
    other = tf.Variable(2.0)
    with bp.probe() as rec:
        y = other * 1.0
        gradient = tape.gradient(loss, other)
    assert gradient is None and y == 2.0
    assert not bp.explain(rec).of_kind("constant_target")


def predicted_outside(net, x):
    p = net(x)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(p**2)
    return tape.gradient(loss, net.trainable_variables)


def not_recording(net, x):
    with tf.GradientTape() as tape:
        with tape.stop_recording():
            p = net(x)
        loss = tf.reduce_mean(p**2)
    return tape.gradient(loss, net.trainable_variables)


@pytest.mark.parametrize("step", [predicted_outside, not_recording])
def test_a_forward_pass_that_the_tape_does_not_record_has_one_cause(step):
    net = network("mse")
    with bp.probe() as rec:
        gradients = step(net, tf.ones((2, 3)))
    assert gradients == [None, None]
    (found,) = bp.explain(rec).findings
    assert found.kind == "outside_tape"
    assert "was computed while that tape did not record" in found.headline
    assert found.source.text.strip() == "p = net(x)"


def test_a_gradient_function_that_gives_none_takes_the_place_of_a_guess():
    @tf.custom_gradient
    def twice(x):
        return x * 2.0, lambda given: None

    w = tf.Variable([1.0, 2.0])
    with bp.probe() as rec:
        with tf.GradientTape() as tape:
            y = twice(w)
            loss = tf.reduce_sum(y)
        gradient = tape.gradient(loss, w)
    assert gradient is None
    (found,) = bp.explain(rec).findings
    assert found.headline == "the gradient function of `twice(w)` returned None, so no gradient comes back to 'w'"


def test_the_unused_call_of_a_layer_is_named_with_its_count():
    net = network("mse")
    with bp.probe(net) as rec:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(net(tf.ones((2, 3))) ** 2)
        gradients = tape.gradient(loss, net.trainable_variables)
        error = tf.reduce_mean(tf.abs(net(tf.ones((2, 3)))))
    assert len(gradients) == 2 and error.shape == ()
    assert "nothing recorded leads to an output from: out#1" in bp.explain(rec).notes
