"""Health in TensorFlow and JAX: loops that are one operation, and losses that take logits."""

import jax
import jax.numpy as jnp
import numpy
import pytest
import tensorflow as tf

import backprobe as bp


def kinds(report):
    return [finding.kind for finding in report.findings]


X = jnp.asarray(numpy.random.RandomState(0).randn(8, 4) * 0.1, "float32")


def _scanned(w, xs):
    def step(h, x):
        h = jnp.tanh(h @ w + x)
        return h, h

    last, _ = jax.lax.scan(step, jnp.ones(4), xs)
    return (last**2).sum()


def _in_python(w, xs):
    h = jnp.ones(4)
    for x in xs:
        h = jnp.tanh(h @ w + x)
    return (h**2).sum()


@pytest.mark.parametrize(("gain", "found"), [(0.05, ["vanishing"]), (0.01, ["vanishing"]), (1.0, [])])
def test_a_scan_is_judged_as_the_same_loop_in_python(gain, found):
    for program in (_scanned, _in_python):
        assert kinds(bp.health(bp.probe(program)(jnp.eye(4) * gain, X))) == found


def test_a_scan_that_explodes():
    def f(w, xs):
        def step(h, x):
            h = h @ w + x
            return h, h.sum()

        last, _ = jax.lax.scan(step, jnp.ones(4) * 1e-3, xs)
        return last.sum()

    report = bp.health(bp.probe(f)(jnp.eye(4) * 5.0, X))
    assert "exploding" in kinds(report)
    assert "8 layers, from '/step:h#1 in step 0' to '/step:h#1 in step 7'" in report.findings[0].facts[1]


def test_a_scan_over_samples_has_no_depth():
    def f(w, xs):
        def each(total, x):
            y = jnp.tanh(x @ w)
            return total + y.sum(), y * 10.0 ** (-x[0])

        total, ys = jax.lax.scan(each, 0.0, xs * 10)
        return total + ys.sum()

    assert not {"vanishing", "exploding"} & set(kinds(bp.health(bp.probe(f)(jnp.eye(4), X))))


@pytest.mark.parametrize("gain", [1.0, 100.0])
@pytest.mark.parametrize("apart", [False, True])
def test_keras_crossentropy_of_a_sigmoid_takes_its_logits(gain, apart):
    import keras

    keras.utils.set_random_seed(0)
    parts = (
        [keras.layers.Dense(1), keras.layers.Activation("sigmoid")]
        if apart
        else [keras.layers.Dense(1, activation="sigmoid")]
    )
    model = keras.Sequential([keras.layers.Dense(8, activation="tanh"), *parts])
    x = numpy.random.RandomState(0).randn(16, 4).astype("float32")
    model(x)
    model.layers[1].set_weights([model.layers[1].get_weights()[0] * gain, numpy.zeros(1)])
    labels = (x[:, :1] > 0).astype("float32")
    with bp.probe(model, of="loss") as rec:
        loss = tf.reduce_mean(keras.losses.binary_crossentropy(labels, model(x)))
    assert kinds(bp.health(rec)) == []
