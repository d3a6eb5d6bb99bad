"""``WatchCallback`` in Keras's ``fit``."""

import gc
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import backprobe as bp
from asked import message
from backprobe.integrations.keras import WatchCallback
from sampled import without

X = np.random.default_rng(0).normal(size=(32, 3)).astype("float32")
Y = X.sum(1, keepdims=True)
EAGER, GRAPH, XLA = {"run_eagerly": True}, {"jit_compile": False}, {"jit_compile": True}
MODES = pytest.mark.parametrize(
    "compiled",
    [
        pytest.param(EAGER, id="eager"),
        pytest.param(GRAPH, id="graph"),
        pytest.param(XLA, id="xla", marks=pytest.mark.sweep),
    ],
)


class TwoOptimizers(keras.Sequential):
    def train_step(self, data):
        x, y = data
        with tf.GradientTape(persistent=True) as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
        for optimizer, layer in zip((self.first, self.optimizer), self.layers, strict=True):
            optimizer.apply(tape.gradient(loss, layer.trainable_weights), layer.trainable_weights)
        return {"loss": loss}


def made(kind=keras.Sequential, **compiled):
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(4, activation="tanh", name="hidden"), keras.layers.Dense(1, name="out")]
    model = kind([keras.Input((3,)), *layers])
    if kind is TwoOptimizers:
        model.first = keras.optimizers.SGD(0.05)
    model.compile(
        keras.optimizers.Adam(0.05), "mse", **({} if kind is TwoOptimizers else {"metrics": ["mae"]}), **compiled
    )
    return model


def fit(model, *callbacks, **options):
    options = {"batch_size": 8, "shuffle": False, "verbose": 0, **options}
    data = options.pop("data", (X, Y))
    return model.fit(*data, callbacks=list(callbacks), **options)


def same(model, other):
    return all(map(np.array_equal, model.get_weights(), other.get_weights()))


def by_hand(folder, model):
    """The rows of a loop of one's own."""
    optimizer = model.optimizer
    with bp.watch(model, folder, optimizer=optimizer):
        for x, y in zip(X.reshape(4, 8, 3), Y.reshape(4, 8, 1), strict=True):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
            optimizer.apply(tape.gradient(loss, model.trainable_weights), model.trainable_weights)
    return bp.open_run(folder)


@MODES
def test_rows_are_those_of_a_loop(tmp_path, compiled):
    bare, model = made(**compiled), made(**compiled)
    plain = fit(bare)
    callback = WatchCallback(tmp_path / "fit")
    watched = fit(model, callback)
    assert callback.run is None
    assert same(model, bare) and watched.history == plain.history
    found, wanted = bp.open_run(tmp_path / "fit"), by_hand(tmp_path / "loop", made())
    assert found.steps.tolist() == wanted.steps.tolist() == [0, 1, 2, 3]
    for name in wanted.names:
        for field in wanted.at(2)[name]:
            assert found.at(2)[name][field] == pytest.approx(wanted.at(2)[name][field], rel=1e-3, abs=1e-6)
    assert set(found.names) == {*wanted.names, "loss", "mae", "learning_rate"}
    assert found.series("loss", "logged")[1][-1] == pytest.approx(plain.history["loss"][0])


@MODES
def test_what_fit_can_be_asked(tmp_path, compiled):
    """Validation, an evaluation in a callback, early stopping, and ``fit`` twice with one callback."""
    asked = {"validation_data": (X, Y), "epochs": 4, "class_weight": {0: 1.0}, "data": (X, Y > 0)}
    models = made(**compiled), made(**compiled)
    callback = WatchCallback(tmp_path, select="hidden")
    for model, own in zip(models, ([], [callback]), strict=True):
        evaluating = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs, model=model: model.evaluate(X[:8], Y[:8] > 0, verbose=0)
        )
        early = keras.callbacks.EarlyStopping("val_loss", patience=0, min_delta=10.0)
        asked["class_weight"] = {0: 1.0, 1: 2.0}
        fit(model, evaluating, early, *own, **asked)
        fit(model, *own, epochs=3, initial_epoch=2)
    assert same(*models)
    run = bp.open_run(tmp_path)
    assert run.steps.tolist() == list(range(12))  # two epochs, as nothing gets better by 10, and one more
    assert run.series("hidden", "value.count")[1].tolist() == [32] * 12
    assert run.series("val_loss", "logged")[0].tolist() == [3, 7]


@MODES
def test_several_optimizers_in_a_train_step_of_ones_own(tmp_path, compiled):
    bare, model = made(TwoOptimizers, **compiled), made(TwoOptimizers, **compiled)
    fit(bare)
    fit(model, WatchCallback(tmp_path, what=("value", "grad", "param", "update")))
    assert same(model, bare)
    run = bp.open_run(tmp_path)
    for name in ("hidden.kernel", "out.kernel"):
        assert run.series(name, "update.rms")[0].tolist() == [0, 1, 2, 3]


@MODES
def test_gradients_that_accumulate_are_one_step(tmp_path, compiled):
    """``grad`` is what the optimizer uses: the mean of the batches of a step, clipped."""

    def accumulating():
        model = made(**compiled)
        optimizer = keras.optimizers.SGD(0.05, gradient_accumulation_steps=2, clipnorm=0.01)
        model.compile(optimizer, "mse", **compiled)
        return model

    bare, model = accumulating(), accumulating()
    fit(bare)
    fit(model, WatchCallback(tmp_path, what=("value", "grad", "param", "update")))
    assert same(model, bare)
    fit(model, WatchCallback(tmp_path, what=("value", "grad", "param", "update")))
    run = bp.open_run(tmp_path)
    assert run.steps.tolist() == [0, 1, 2, 3]
    for name, size in (("hidden.kernel", 12), ("out.kernel", 4)):
        rows = [run.at(step)[name] for step in run.steps]
        assert [row["grad.count"] for row in rows] == [size] * 4
        assert [row["param.count"] for row in rows] == [row["update.count"] for row in rows] == [size] * 4
        for row in rows:
            assert row["grad.rms"] == pytest.approx(0.01 / size**0.5, rel=1e-4)
            assert row["update.rms"] == pytest.approx(0.05 * row["grad.rms"], rel=1e-3)
    assert run.series("hidden", "value.count")[1].tolist() == run.series("hidden", "grad.count")[1].tolist() == [64] * 4
    assert run.series("loss", "logged")[0].tolist() == [0, 1, 2, 3]


class Failing(keras.callbacks.Callback):
    def __init__(self, error):
        super().__init__()
        self.error = error

    def on_train_batch_end(self, batch, logs=None):
        if batch == 1 and self.error is not None:
            raise self.error


def batches(fails):
    def made():
        for at in range(4):
            if fails and at == 2:
                raise ValueError("a batch is broken")
            yield X[8 * at : 8 * at + 8], Y[8 * at : 8 * at + 8]

    signature = tf.TensorSpec((8, 3)), tf.TensorSpec((8, 1))
    return tf.data.Dataset.from_generator(made, output_signature=signature)


@MODES
@pytest.mark.parametrize("way", without(["callback", "interrupt", "data"], "interrupt", "data"))
def test_a_fit_that_fails_leaves_the_model_as_it_was(tmp_path, compiled, way):
    error = {"callback": RuntimeError("no more"), "interrupt": KeyboardInterrupt(), "data": None}[way]
    models, call = (made(**compiled), made(**compiled)), vars(keras.layers.Layer)["__call__"]
    callback = WatchCallback(tmp_path / "run", select="hidden")
    for model, own in zip(models, ([], [callback]), strict=True):
        with pytest.raises((RuntimeError, KeyboardInterrupt, tf.errors.InvalidArgumentError)):
            if way == "data":
                model.fit(batches(True), shuffle=False, verbose=0, callbacks=own)
            else:
                fit(model, *own, Failing(error))
    assert same(*models) and vars(keras.layers.Layer)["__call__"] is call
    assert (callback.run is None) == (way == "data")
    for model in models:
        fit(model)  # without the callback
    assert same(*models) and callback.run is None
    assert "FitSteps" not in type(models[1].train_function).__name__
    first = int(models[0].optimizer.iterations)  # in a graph TensorFlow may count the step that got no batch
    for model, own in zip(models, ([], [callback]), strict=True):
        fit(model, *own)
    assert same(*models)
    assert bp.open_run(tmp_path / "run").steps.tolist() == [0, 1, *range(first, first + 4)]


def test_terminate_on_nan(tmp_path):
    model = made(**EAGER)
    broken = X.copy()
    broken[9] = np.nan
    fit(model, WatchCallback(tmp_path), keras.callbacks.TerminateOnNaN(), data=(broken, Y))
    run = bp.open_run(tmp_path)
    assert run.steps.tolist() == [0, 1] and run.at(1)["hidden"]["value.nan"] == 4


def test_what_a_failed_fit_leaves_open_ends_with_its_callback(tmp_path):
    model = made(**GRAPH)
    callback = WatchCallback(tmp_path, select="hidden")
    with pytest.raises(RuntimeError):
        fit(model, callback, Failing(RuntimeError("no more")))
    del callback
    gc.collect()
    fit(model, WatchCallback(tmp_path, select="hidden"))  # the folder is free
    assert bp.open_run(tmp_path).steps.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_training_function_that_is_made_anew_by_a_callback(tmp_path):
    class Anew(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 1:
                self.model.make_train_function(force=True)

    models = made(**GRAPH), made(**GRAPH)
    fit(models[0], Anew())
    fit(models[1], WatchCallback(tmp_path, select="hidden"), Anew())
    assert same(*models)
    assert bp.open_run(tmp_path).series("hidden", "grad.rms")[0].tolist() == [0, 1, 2, 3]


def test_what_is_refused(tmp_path, monkeypatch):
    several = made(steps_per_execution=2)
    assert "steps_per_execution=1" in message(bp.BadOption, lambda: fit(several, WatchCallback(tmp_path)))
    assert "the trainer has it" in message(bp.BadOption, lambda: WatchCallback(tmp_path, optimizer=1))
    monkeypatch.setattr(keras.backend, "backend", lambda: "torch")
    callback = WatchCallback(tmp_path)
    callback.set_model(several)
    assert "run.step()" in message(bp.Unsupported, callback.on_train_begin)


def test_the_line_of_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "trainers.md").read_text()
    (code,) = (block for block in page.split("```python\n") if block.startswith("def watched_by_keras"))
    space = {}
    exec(code.split("```")[0], space)
    space["watched_by_keras"](made(), X, Y)
    assert bp.open_run("runs/exp1").steps.tolist() == [0]


def test_the_snippet_of_the_page_about_watching(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "watch.md").read_text()
    (code,) = (block for block in page.split("```python\n") if "WatchCallback(" in block.split("```")[0])
    exec(code.split("```")[0], {"model": made(**EAGER), "x": X, "y": Y})
    assert bp.open_run("runs/exp1").steps.tolist() == [0]
