"""bp.check of derivatives that are written by hand where one does not see it: of Variables, inside other calls."""

import functools

import jax.numpy as jnp
import keras
import numpy as np
import pytest
import tensorflow as tf

import backprobe as bp

check = functools.partial(bp.check, backend="tensorflow")
WEIGHT = tf.Variable([[1.0, 2.0], [3.0, 5.0]])
ROWS = [[1.0, 2.0], [3.0, 4.0]]


def linear(weight, factor):
    @tf.custom_gradient
    def layer(x):
        y = x @ weight

        def grad(d, variables=None):
            return d @ tf.transpose(weight), [factor * tf.transpose(x) @ d for _ in variables]

        return y, grad

    return layer


@tf.custom_gradient
def doubled(x):
    y = x @ WEIGHT

    def grad(d, variables=None):
        return d @ tf.transpose(WEIGHT), [2 * tf.transpose(x) @ d for _ in variables]

    return y, grad


@tf.custom_gradient
def half(x):
    return x * x, lambda g: g * x


@pytest.mark.parametrize("program", [lambda x: doubled(x), lambda x: x * doubled(tf.constant(ROWS))])
def test_a_custom_gradient_is_checked_for_the_variables_that_it_reads(program):
    before = WEIGHT.numpy().tolist()
    (finding,) = check(program)(tf.constant(ROWS)).findings
    assert finding.input == "WEIGHT" and finding.error == pytest.approx(1.0, abs=1e-2)
    assert WEIGHT.numpy().tolist() == before


def test_a_right_gradient_of_variables_is_right():
    layer = linear(WEIGHT, 1)
    report = check(lambda x: layer(x))(tf.constant(ROWS))
    assert report.ok and report.complete and not report.unjudged


def test_a_custom_gradient_in_a_layer_is_checked_for_its_weights():
    class Layer(keras.layers.Layer):
        def build(self, shape):
            self.w = self.add_weight(shape=(2, 2), name="w")

        def call(self, x):
            return linear(self.w, 2)(x)

    layer = Layer(name="own")
    layer(tf.constant(ROWS))
    before = layer.w.numpy()
    for model in (layer, keras.Sequential([keras.Input((2,)), layer])):
        (finding,) = check(model)(tf.constant(ROWS)).findings
        assert finding.input == "own/w" and finding.error == pytest.approx(1.0, abs=1e-2)
    assert np.array_equal(layer.w.numpy(), before)


def test_a_function_of_the_frameworks_is_checked_for_the_variables_that_it_reads():
    weight = tf.Variable(2.0)
    report = check(lambda x: tf.map_fn(lambda row: tf.tanh(row * weight), x))(tf.constant(ROWS))
    assert report.ok and report.judged and weight.numpy() == 2.0


def test_a_tensor_that_is_closed_over_is_said_not_to_be_checked():
    def program(x):
        w = tf.exp(x)

        @tf.custom_gradient
        def times(y):
            return y * w, lambda g: g * w

        return times(x) + tf.map_fn(lambda row: row * 2.0, x)

    report = check(program)(tf.constant(ROWS))
    (note,) = [note for note in report.notes if "captured by closures" in note]
    assert (
        "times(x)" in note and "taken by itself, each call that was checked has the right derivative" in report.heading
    )


def test_a_custom_gradient_in_a_py_function_is_written_by_hand():
    (finding,) = check(lambda x: tf.py_function(lambda a: half(a), [x], tf.float32))(tf.constant(ROWS)).findings
    assert finding.error == pytest.approx(0.5, abs=1e-2)


def test_what_is_detached_in_a_py_function_is_not():
    report = check(lambda x: tf.py_function(lambda a: a * tf.stop_gradient(a), [x], tf.float32))(tf.constant(ROWS))
    assert report.ok and report.complete and "nothing in it was written by hand" in str(report)


def test_the_array_of_a_method_is_not_closed_over():
    report = bp.check(lambda x: (jnp.sin(x) * 2).sum())(jnp.ones(3))
    assert report.notes == () and "taken by itself, each call has the right derivative" in report.heading
