"""A block around ``model.fit``: it never fails, is recorded with ``run_eagerly=True``, and says so otherwise."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import backprobe as bp

X = np.linspace(-1, 1, 24, dtype="float32").reshape(8, 3)
Y = X.sum(axis=1, keepdims=True) ** 2


def made(**options):
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(4, activation="tanh", name="hidden"),
            keras.layers.Dense(1, name="out"),
        ]
    )
    model.compile("adam", **{"loss": "mse", **options})
    return model


def fitted(model, **options):
    return model.fit(X, Y, verbose=0, shuffle=False, **options).history["loss"], model.get_weights()


def agree(found, wanted):
    assert found[0] == wanted[0]
    assert all(np.array_equal(a, b) for a, b in zip(found[1], wanted[1], strict=True))


def test_fit_is_recorded_when_it_runs_eagerly():
    wanted = fitted(made(run_eagerly=True), batch_size=8)
    model = made(run_eagerly=True)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(X) - Y) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    with bp.probe(model) as rec:
        found = fitted(model, batch_size=8)
    agree(found, wanted)
    paths = ["hidden.kernel", "hidden.bias", "out.kernel", "out.bias"]
    for path, gradient in zip(paths, gradients, strict=True):
        np.testing.assert_allclose(rec[path].grad, gradient, rtol=1e-5)
    assert [entry.name for entry in rec.outputs] == ["gradient()"]
    np.testing.assert_allclose(rec["gradient()"].value, loss, rtol=1e-6)
    assert rec.notes == ()
    assert bp.explain(rec).ok


def test_the_steps_of_fit_have_their_own_gradients():
    wanted = fitted(made(run_eagerly=True), batch_size=4, epochs=2)
    model = made(run_eagerly=True)
    with bp.probe(model, "**") as rec:
        found = fitted(model, batch_size=4, epochs=2)
    agree(found, wanted)
    assert len(rec.outputs) == 4
    for step in range(4):
        out = rec[f"out#{step}"]
        batch = Y[4 * (step % 2) : 4 * (step % 2) + 4]
        np.testing.assert_allclose(out.grad, 2 * (out.value - batch) / 4, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("select", [None, "hidden:*"])
def test_compiled_fit_goes_on_and_says_what_it_needs(select):
    wanted = fitted(made(), batch_size=8)
    model = made()
    with bp.probe(model, select) as rec:
        found = fitted(model, batch_size=8)
    agree(found, wanted)
    said = [str(note) for note in rec.notes]
    assert "model.compile(..., run_eagerly=True) lets it be recorded" in "\n".join(said)
    assert said[-1] == (
        "the block was not differentiated: it ran compiled, as a whole, and left no variable to differentiate"
    )
    report = bp.explain(rec)
    assert not report.ok
    assert report.findings[0].remedy == (
        "model.compile(..., run_eagerly=True) before fit: then its layers and its loss are recorded"
    )


@pytest.mark.parametrize("act", ["evaluate", "predict", "train_on_batch"])
@pytest.mark.parametrize("run_eagerly", [False, True])
def test_whatever_keras_runs_in_a_block_goes_on(act, run_eagerly):
    model = made(run_eagerly=run_eagerly)
    with bp.probe(model) as rec:
        getattr(model, act)(X, **({} if act == "predict" else {"y": Y}))
    if run_eagerly and act == "train_on_batch":
        assert rec["out"].grad.shape == (8, 1)
    else:
        assert rec.record.notes[-1].code == "block_not_differentiated"


class Penalised(keras.Model):
    """A step of its own, whose inner gradient goes into the loss."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1, name="dense")

    def call(self, x):
        return self.dense(x) ** 2

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                inner.watch(x)
                predicted = self(x)
            slope = inner.gradient(predicted, x)
            loss = tf.reduce_mean((predicted - y) ** 2) + tf.reduce_mean(slope**2)
        self.optimizer.apply(outer.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"loss": loss}


def test_what_only_its_gradient_is_used_of_is_not_an_output():
    keras.utils.set_random_seed(0)
    model = Penalised()
    model.compile("sgd", run_eagerly=True)
    with bp.probe(model) as rec:
        model.fit(X, Y, verbose=0)
    assert len(rec.outputs) == 1
    assert rec.outputs[0].shape == ()


def test_a_step_in_a_function_that_leaves_no_variable():
    w = tf.Variable([1.0, 2.0])

    def step():
        with tf.GradientTape() as tape:
            u = w * 3.0
            loss = tf.reduce_sum(u**2)
        w.assign_sub(0.1 * tape.gradient(loss, w))

    with bp.probe() as rec:
        step()
    assert rec["/step:u"].grad.numpy().tolist() == [6, 12]
    assert [entry.name for entry in rec.outputs] == ["/step:loss"]


class Probing(Penalised):
    """A step that is probed itself."""

    def train_step(self, data):
        x, y = data
        self.rec = bp.probe(lambda x: tf.reduce_mean((self(x) - y) ** 2))(x)
        return {"loss": 0.0}


def test_a_probe_inside_a_step_says_what_keras_needs():
    model = Probing()
    model.compile("sgd")
    with pytest.raises(bp.Unsupported) as caught:
        model.fit(X, Y, verbose=0)
    assert caught.value.next == "model.compile(..., run_eagerly=True)"
    model.compile("sgd", run_eagerly=True)
    model.fit(X, Y, verbose=0)
    assert model.rec["x"].grad.shape == (8, 3)
