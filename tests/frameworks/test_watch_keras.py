"""``bp.watch`` of Keras models: in loops of one's own, eager and compiled, and in ``fit``."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import backprobe as bp
from asked import message

X = np.random.default_rng(0).normal(size=(4, 8, 3)).astype("float32")


def rms(array):
    return float(np.sqrt((np.asarray(array, np.float64) ** 2).mean()))


def made():
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(4, activation="tanh", name="hidden"),
            keras.layers.Dense(1, name="out"),
        ]
    )


def stepping(model, optimizer):
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss, gradients[0]

    return step


def trained(model, optimizer, compiled, run=None):
    """The losses and gradients of each step."""
    step, found = stepping(model, optimizer), []
    step = tf.function(step) if compiled else step
    for x in X:
        loss, gradient = step(x)
        found.append((float(loss), gradient.numpy()))
        if compiled and run is not None:
            run.step()
    return found


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "tf.function"])
def test_lines_of_calls_are_those_of_the_program_and_not_of_what_autograph_made_of_it(tmp_path, compiled):
    model, optimizer = made(), keras.optimizers.SGD(0.1)
    with bp.watch(model, tmp_path, optimizer=optimizer) as run:
        trained(model, optimizer, compiled, run)
    with bp.open_run(tmp_path) as run:
        lines = {name: (line.file, line.text) for name, line in run._reader.lines().items()}
    line = __file__, "loss = tf.reduce_mean(model(x) ** 2)"
    assert lines == ({} if compiled else dict.fromkeys(("hidden", "out", "return"), line))


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "tf.function"])
def test_rows_of_a_loop_of_ones_own(tmp_path, compiled):
    plain = made()
    wanted = trained(plain, keras.optimizers.SGD(0.1), compiled)
    model = made()
    before = model.get_weights()[0]
    model(X[0])  # an evaluation, which is not counted
    optimizer = keras.optimizers.SGD(0.1)
    with bp.watch(model, tmp_path, optimizer=optimizer, what=("value", "grad", "param", "update")) as run:
        found = trained(model, optimizer, compiled, run)
        model(X[0])
    for (loss, gradient), (other, expected) in zip(found, wanted, strict=True):
        assert loss == other and np.array_equal(gradient, expected)
    assert all(map(np.array_equal, model.get_weights(), plain.get_weights()))
    run = bp.open_run(tmp_path)
    assert run.steps.tolist() == [0, 1, 2, 3]
    assert set(run.names) == {"hidden", "out", "return", "hidden.kernel", "hidden.bias", "out.kernel", "out.bias"}
    rec = bp.probe(made(), of=lambda result: tf.reduce_mean(result**2))(X[0])
    first = run.at(0)
    for name in ("hidden", "out"):
        assert first[name]["value.rms"] == pytest.approx(rms(rec[name].value), rel=1e-5)
        assert first[name]["grad.rms"] == pytest.approx(rms(rec[name].grad), rel=1e-5)
        assert first[name]["value.count"] == rec[name].value.numpy().size
    kernel = first["hidden.kernel"]
    assert kernel["grad.rms"] == pytest.approx(rms(wanted[0][1]), rel=1e-5)
    assert kernel["update.rms"] == pytest.approx(0.1 * rms(wanted[0][1]), rel=1e-4)
    assert kernel["param.rms"] == pytest.approx(rms(before - 0.1 * wanted[0][1]), rel=1e-5)


@pytest.mark.parametrize("eagerly", [True, False], ids=["eager", "compiled"])
def test_fit(tmp_path, eagerly):
    """Also where ``fit`` has compiled the model before."""

    def fitted(model, *callbacks):
        data = X.reshape(-1, 3)
        model.fit(data, data.sum(1), batch_size=8, shuffle=False, verbose=0, callbacks=[*callbacks])
        return model.get_weights()

    models = made(), made()
    for model in models:
        model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=eagerly)
        fitted(model)
    wanted = fitted(models[0])
    with bp.watch(models[1], tmp_path, optimizer=models[1].optimizer) as run:
        ends = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: run.step())
        found = fitted(models[1], *([] if eagerly else [ends]))
    assert all(map(np.array_equal, found, wanted))
    run = bp.open_run(tmp_path)
    assert run.steps.tolist() == [0, 1, 2, 3]
    assert run.at(3)["hidden"]["value.count"] == 32 and run.at(3)["out.kernel"]["grad.rms"] > 0
    assert models[1].train_function is None
    fitted(models[1])


def test_what_does_not_fit_is_refused(tmp_path):
    model, optimizer = made(), keras.optimizers.SGD(0.1)
    watch = lambda **options: message(bp.BackprobeError, bp.watch(model, tmp_path, **options).__enter__)
    assert "optimizer=model.optimizer" in watch()
    assert "optimizer is an optimizer of Keras, or several" in watch(optimizer=1)
    assert "matches nothing in Sequential's modules" in watch(optimizer=optimizer, select="hiden")
    assert "pace=bp.Pace(histogram=...) is for PyTorch" in watch(optimizer=optimizer, pace=bp.Pace(histogram=1))
    assert "scales the loss" in watch(optimizer=keras.optimizers.LossScaleOptimizer(optimizer))
    with bp.watch(model, tmp_path, optimizer=optimizer) as run:
        trained(model, optimizer, False)
        assert "leave out run.step()" in message(bp.BadOption, run.step)


def test_every_second_step_in_a_graph(tmp_path):
    model, optimizer = made(), keras.optimizers.SGD(0.1)
    with bp.watch(model, tmp_path, optimizer=optimizer, every=2, select=["hidden", "out.*"]) as run:
        trained(model, optimizer, True, run)
    run = bp.open_run(tmp_path)
    steps, counts = run.series("hidden", "value.count")
    assert steps.tolist() == [0, 2] and counts.tolist() == [32, 32]
    assert set(run.names) == {"hidden", "out.kernel", "out.bias"}


# functions that were traced before the watch


def whole(model, optimizer):
    return tf.function(stepping(model, optimizer))


def around_a_layer(model, optimizer):
    hidden, out = model.layers
    traced_layer = tf.function(lambda x: hidden(x))

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(out(traced_layer(x)) ** 2)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)

    return step


def gradients_alone(model, optimizer):
    @tf.function
    def gradients(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x) ** 2)
        return tape.gradient(loss, model.trainable_variables)

    return lambda x: optimizer.apply(gradients(x), model.trainable_variables)


@pytest.mark.parametrize(
    ("making", "name"), [(whole, "step"), (around_a_layer, "<lambda>"), (gradients_alone, "gradients")]
)
def test_a_function_that_was_traced_before_the_watch(tmp_path, making, name):
    model, optimizer = made(), keras.optimizers.SGD(0.1)
    step = making(model, optimizer)
    step(X[0])
    with bp.watch(model, tmp_path, optimizer=optimizer):
        said = message(bp.Unsupported, lambda: step(X[0]))
    assert f"{name}() was traced before it was watched" in said and "no call of 'hidden' was seen" in said
    assert "call bp.watch(...) before" in said


def test_a_function_around_one_that_was_traced_before(tmp_path):
    model, optimizer = made(), keras.optimizers.SGD(0.1)
    step = whole(model, optimizer)
    step(X[0])
    with bp.watch(model, tmp_path, optimizer=optimizer) as run:
        tf.function(lambda x: step(x))(X[0])
        assert "step() was traced before" in message(bp.Unsupported, run.step)


def test_evaluating_with_what_was_traced_before(tmp_path):
    model = made()
    model.compile(keras.optimizers.SGD(0.1), "mse")
    evaluating = tf.function(lambda x: model(x))
    evaluating(X[0])
    model.predict(X[0], verbose=0)
    model.fit(X[0], X[0].sum(1), verbose=0)
    with bp.watch(model, tmp_path, optimizer=model.optimizer) as run:
        step = whole(model, model.optimizer)
        for x in X[:2]:
            step(x)
            evaluating(x)
            model.predict(x, verbose=0)
            run.step()
    assert bp.open_run(tmp_path).series("hidden", "value.count")[1].tolist() == [32, 32]


def test_a_shared_layer_is_selected_by_any_of_its_names(tmp_path):
    class Shared(keras.Model):
        def __init__(self):
            super().__init__()
            self.a = keras.layers.Dense(3)
            self.b = self.a

        def call(self, x):
            return self.b(self.a(x))

    model = Shared()
    model(tf.zeros((1, 3)))
    optimizer = keras.optimizers.SGD(0.1)
    with bp.watch(model, tmp_path, select="b", optimizer=optimizer):
        stepping(model, optimizer)(tf.ones((5, 3)))
    with bp.open_run(tmp_path) as run:
        assert run.names == ["b"]
        assert run.at(0)["b"]["grad.count"] == 30


@pytest.mark.parametrize("compiled", [False, True])
def test_steps_of_a_training_are_no_gaps(tmp_path, compiled):
    model, optimizer = made(), keras.optimizers.SGD(0.1)
    with bp.watch(model, tmp_path, optimizer=optimizer) as run:
        trained(model, optimizer, compiled, run)
    with bp.open_run(tmp_path) as run:
        assert run.steps.tolist() == [0, 1, 2, 3]
        assert not run.gaps.findings


def test_updates_of_a_narrow_dtype_are_subtracted_in_float32(tmp_path):
    """From almost 0 a weight goes to 1: in bfloat16 the difference of the two would be 0.99609375."""
    begin = 2**-9 * (1 + 2**-7)
    options = {"use_bias": False, "dtype": "bfloat16", "kernel_initializer": keras.initializers.Constant(begin)}
    net = keras.Sequential([keras.layers.Dense(1, **options)])
    net.build((None, 4))
    optimizer = keras.optimizers.SGD(1.0)
    with bp.watch(net, tmp_path, optimizer=optimizer, what=("param", "update")):
        optimizer.apply([-tf.ones((4, 1), tf.bfloat16)], net.trainable_variables)
    with bp.open_run(tmp_path) as run:
        (name,) = run.names
        assert run.series(name, "param.max")[1].tolist() == [1.0]
        assert run.series(name, "update.max")[1].tolist() == [1 - begin]
