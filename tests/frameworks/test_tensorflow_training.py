"""Trainings in TensorFlow: those that are well have no finding in any form, and each that is ill has its line."""

import inspect
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import backprobe as bp
from asked import well
from commands import invoked

X = np.random.RandomState(0).randn(8, 4).astype("float32")
Y = np.random.RandomState(1).randint(0, 2, (8, 1)).astype("float32")


@pytest.fixture
def model():
    keras.utils.set_random_seed(0)
    hidden = keras.layers.Dense(5, activation="tanh", name="hidden")
    return keras.Sequential([keras.Input((4,)), hidden, keras.layers.Dense(1, name="head")])


def state(model):
    return [value.tobytes() for value in model.get_weights()]


def trained(model, loss_of, steps=2, **how):
    """A usual loop, and the recording of it."""
    optimizer = keras.optimizers.SGD(0.1)
    with bp.probe(**how) as rec:
        for _ in range(steps):
            with tf.GradientTape() as tape:
                loss = loss_of(model)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return rec


def line_of(function, text):
    lines, first = inspect.getsourcelines(function)
    return next(first + at for at, line in enumerate(lines) if text in line)


# a healthy program goes on as it would without a probe, and nothing is found


class OwnStep(keras.Model):
    """Its step gives the loss itself: a function of the Variables, which draws from an iterator."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1, name="dense")

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self(x) - y) ** 2)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": loss}


def fitted(optimizer="sgd"):
    keras.utils.set_random_seed(0)
    model = OwnStep()
    model.compile(optimizer)
    return model


@pytest.mark.parametrize("around_model", [False, True])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_step_that_tensorflow_cannot_differentiate_runs_in_a_block(optimizer, around_model):
    wanted = fitted(optimizer)
    history = wanted.fit(X, Y, verbose=0, shuffle=False).history["loss"]
    found = fitted(optimizer)
    with bp.probe(*[found] * around_model) as rec:
        assert found.fit(X, Y, verbose=0, shuffle=False).history["loss"] == history
    assert state(found) == state(wanted)
    assert "run_eagerly=True" in bp.explain(rec).findings[0].remedy


def test_a_function_that_draws_from_an_iterator_runs_in_a_block():
    w, data = tf.Variable([1.0, 2.0]), tf.data.Dataset.from_tensor_slices(tf.ones((4, 2)))

    @tf.function
    def drawn(iterator):
        return tf.reduce_sum(w * next(iterator))

    with bp.probe() as rec:
        total = drawn(iter(data))
        loss = tf.reduce_sum(w**2) + total
    assert rec["w"].grad.numpy().tolist() == [2, 4]
    assert str(rec["total"].status) == "detached"
    assert float(loss) == 8


def test_a_tape_of_the_programs_own_around_such_a_function_raises_as_it_does_without_a_probe():
    w, data = tf.Variable(1.0), tf.data.Dataset.from_tensor_slices([1.0, 2.0])
    drawn = tf.function(lambda iterator: w * next(iterator))
    with pytest.raises(LookupError, match="No gradient defined"), bp.probe(), tf.GradientTape():
        drawn(iter(data))


def masked(model):
    mask = tf.constant([[1.0]] * 4 + [[0.0]] * 4)
    kept = tf.where(mask > 0, model(X), 0.0)
    return tf.reduce_mean((kept - Y) ** 2)


MASK = tf.constant([[1.0]] * 4 + [[0.0]] * 4)
INPUT = tf.constant(X)


def masked_by_data(model):
    return tf.reduce_mean((tf.where(MASK > 0, model(INPUT), 0.0) - Y) ** 2)


def straight_through(model):
    out = model(X)
    hard = out + tf.stop_gradient(tf.sign(out) - out)
    return tf.reduce_mean((hard - Y) ** 2)


@tf.custom_gradient
def binarized(value):
    return tf.sign(value), lambda upstream: upstream * tf.cast(tf.abs(value) <= 1.0, upstream.dtype)


def by_hand(model):
    return tf.reduce_mean((binarized(model(X)) - Y) ** 2)


def checkpointed(model):
    return tf.reduce_mean(tf.recompute_grad(lambda x: tf.tanh(model(x)))(INPUT) ** 2)


def in_python(model):
    out = model(X)
    squared = tf.py_function(lambda value: tf.exp(-tf.square(value)), [out], tf.float32)
    return tf.reduce_mean((squared - Y) ** 2)


WELL = [masked, masked_by_data, straight_through, by_hand, checkpointed, in_python]


@pytest.mark.parametrize("loss_of", WELL)
def test_a_training_that_is_well_has_no_finding(model, loss_of):
    well(bp.explain(trained(model, loss_of)))


def test_a_critic_beside_its_generator_is_well(model):
    generator = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4)])
    x, optimizer = tf.constant(X), keras.optimizers.SGD(0.1)
    with bp.probe() as rec:
        noise = tf.random.stateless_normal((8, 3), (1, 2))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(generator(noise))) - tf.reduce_mean(model(x))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(model(generator(noise)))
        keras.optimizers.SGD(0.1).apply(
            tape.gradient(loss, generator.trainable_variables), generator.trainable_variables
        )
    assert well(bp.explain(rec)).heading == "all 6 parameters got a gradient"


SCRIPT = """\
import keras, numpy as np, tensorflow as tf

w, table = tf.Variable([1.0, 2.0]), tf.Variable(np.ones((5, 2), "float32"))
optimizer = keras.optimizers.SGD(0.1)
for step in range(2):
    with tf.GradientTape() as tape:
        u = tf.gather(table, [1, 2]) * w
        loss = tf.reduce_sum(u**2)
    gradients = tape.gradient(loss, [w, table])
    gradients, norm = tf.clip_by_global_norm(gradients, 1.0)
    optimizer.apply(gradients, [w, table])
"""


def explained(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    (tmp_path / "train.py").write_text(text)
    status, out, err = invoked("explain", "train.py")
    return status, out + err


def test_clipped_gradients_and_a_table_in_a_script(tmp_path, monkeypatch):
    status, out = explained(tmp_path, monkeypatch, SCRIPT)
    assert status == 0, out
    assert "all 2 parameters got a gradient" in out
    assert "writes the values" not in out


GRAPHS = """\
import tensorflow as tf

w = tf.Variable([1.0, 2.0])

@tf.function
def step(x):
    loss = tf.reduce_sum((w * x) ** 2)
    return tf.gradients(loss, [w])[0]

print(step(tf.constant([1.0, 3.0])))
"""


def test_a_script_that_needs_a_graph_is_not_called_wrong(tmp_path, monkeypatch):
    status, out = explained(tmp_path, monkeypatch, GRAPHS)
    assert status == 3
    assert "scripts are explained under tf.config.run_functions_eagerly(True)" in out
    assert "by itself the script may run" in out


def test_the_rows_of_a_table_that_is_trained_have_their_gradient():
    table, optimizer = tf.Variable(np.ones((5, 2), "float32")), keras.optimizers.SGD(0.5)
    rows, others = tf.constant([1, 2]), tf.constant([2, 3])
    with bp.probe(nonfinite=True) as rec:
        for _ in range(2):
            with tf.GradientTape() as tape:
                a, b = tf.gather(table, rows), tf.nn.embedding_lookup(table, others)
                loss = tf.reduce_sum(a * b)
            optimizer.apply([tape.gradient(loss, table)], [table])
    well(bp.explain(rec))
    assert rec["table#0"].value.numpy().tolist() == [[1, 1]] * 5
    assert rec["table#1"].value.numpy().tolist() == [[1, 1], [0.5, 0.5], [0, 0], [0.5, 0.5], [1, 1]]
    assert rec["table#1"].grad.numpy().tolist() == [[0, 0], [0, 0], [1, 1], [0, 0], [0, 0]]
    assert rec["table#0"].status == "not_connected"


def test_a_table_without_a_name_has_the_numbers_that_it_had():
    class Net(tf.Module):
        def __init__(self):
            super().__init__()
            self.table = tf.Variable([[1.0], [2.0]], name="table")

    net = Net()
    with bp.probe(nonfinite=True) as rec:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(net.table, [0, 0]) ** 2)
        net.table.assign_sub(tf.convert_to_tensor(tape.gradient(loss, net.table)))
    assert rec["`table:0`"].value.numpy().tolist() == [[1], [2]]
    assert rec["`table:0`"].grad.numpy().tolist() == [[4], [0]]


def test_two_versions_of_a_table_in_one_output_have_one_gradient_together():
    table = tf.Variable([1.0, 2.0])
    with bp.probe() as rec:
        first = tf.gather(table, [0])
        table.assign_add([1.0, 1.0])
        loss = tf.reduce_sum(first * tf.gather(table, [1]))
    assert {str(rec[name].status) for name in ("table#0", "table#1")} == {"opaque"}
    well(bp.explain(rec))
    assert float(loss) == 3


# what is ill


def signed(model):
    out = model(X)
    predicted = tf.sign(out)
    return tf.reduce_mean((predicted - Y) ** 2)


def signed_inside(model):
    return tf.reduce_mean(tf.square(tf.math.sign(model(X)) - Y))


def signed_by_keras(model):
    return tf.reduce_mean((keras.ops.sign(model(X)) - Y) ** 2)


@tf.custom_gradient
def quantized(value):
    return tf.round(value * 4) / 4, lambda upstream: tf.zeros_like(upstream)


def quantized_with_zeros(model):
    out = quantized(model(X))
    return tf.reduce_mean((out - Y) ** 2)


@tf.custom_gradient
def cut_by_hand(value):
    return value * 2.0, lambda upstream: None


def quantized_with_none(model):
    out = cut_by_hand(model(X))
    return tf.reduce_mean((out - Y) ** 2)


def through_numpy(model):
    out = model(X).numpy()
    return tf.reduce_mean((out - Y) ** 2)


def predicted(model):
    out = model.predict(X, verbose=0)
    return tf.reduce_mean((out - Y) ** 2)


def made_anew(model):
    out = tf.Variable(model(X))
    return tf.reduce_mean((out - Y) ** 2)


ZERO = {
    signed: ("zero_derivative", "tf.sign(out)", "`tf.sign(out)` has a derivative of 0 everywhere"),
    signed_inside: ("zero_derivative", "tf.math.sign", "`tf.math.sign(model(X))` has a derivative of 0 everywhere"),
    signed_by_keras: ("zero_derivative", "keras.ops", "`keras.ops.sign(model(X))` has a derivative of 0 everywhere"),
    quantized_with_zeros: (
        "own_gradient",
        "quantized(m",
        "the gradient function of `quantized(model(X))` was given a gradient and returned zeros",
    ),
}
NONE = {
    quantized_with_none: (
        "own_gradient",
        "cut_by_hand(m",
        "the gradient function of `cut_by_hand(model(X))` returned None",
    ),
    through_numpy: ("numpy", "numpy()", "are taken out of TensorFlow here, and NumPy arrays have no gradient history"),
    predicted: ("numpy", "predict(", "predict() gives NumPy arrays, which have no gradient history"),
    made_anew: ("parameter", "tf.Variable(", "`tf.Variable(model(X))` makes a new leaf from the values of `model(X)`"),
}
PARAMETERS = "model.hidden.kernel, model.hidden.bias, model.head.kernel, model.head.bias"


@pytest.mark.parametrize("loss_of", ZERO)
def test_a_gradient_of_zeros_has_its_line(model, loss_of):
    kind, text, said = ZERO[loss_of]
    before = state(model)
    report = bp.explain(trained(model, loss_of))
    assert state(model) == before
    (finding,) = report.findings
    assert (finding.kind, finding.source.line) == (kind, line_of(loss_of, text))
    assert finding.headline.startswith(said)
    assert finding.facts[0] == f"a tape gave zeros for {PARAMETERS}"


@pytest.mark.parametrize("loss_of", NONE)
@pytest.mark.parametrize("around_model", [False, True])
def test_no_gradient_at_all_has_its_line(model, loss_of, around_model):
    kind, text, said = NONE[loss_of]
    with pytest.raises(ValueError, match="No gradients provided") as caught:
        trained(model, loss_of, **({"target": model} if around_model else {}))
    note = caught.value.__notes__[1]
    assert said in note
    assert f":{line_of(loss_of, text)}: " in note


def test_a_cut_in_one_branch_alone_is_no_gradient_of_zeros(model):
    def two_ways(model):
        out = model(X)
        return tf.reduce_mean((tf.sign(out) - Y) ** 2 + out)

    well(bp.explain(trained(model, two_ways)))


def test_watched_too_late():
    x = tf.constant([1.0, 2.0])
    with bp.probe() as rec, tf.GradientTape() as tape:
        y = x * x
        tape.watch(x)
        z = tf.reduce_sum(y)
        assert tape.gradient(z, x) is None
    (finding,) = bp.explain(rec).findings
    assert finding.headline == "a tape gave None for 'x': 'y' was computed from it before that tape watched it"
    assert finding.source.text == "y = x * x"


def test_whole_numbers_are_the_only_finding():
    whole = tf.Variable([3, 4])
    with bp.probe() as rec, tf.GradientTape() as tape:
        y = tf.cast(whole, tf.float32) ** 2
        assert tape.gradient(y, whole) is None
    (finding,) = bp.explain(rec).findings
    assert finding.kind == "not_float"


def test_a_layer_that_is_not_used_is_said_in_a_block():
    class Net(keras.Model):
        def __init__(self):
            super().__init__()
            self.used, self.spare = keras.layers.Dense(1), keras.layers.Dense(1)

        def call(self, x):
            return self.used(x)

    net = Net()
    net.used.build((None, 4))
    net.spare.build((None, 4))
    with bp.probe() as rec, tf.GradientTape() as tape:
        loss = tf.reduce_mean(net(X) ** 2)
        tape.gradient(loss, net.trainable_variables)
    (finding,) = bp.explain(rec).findings
    assert finding.headline == "'net.spare' (Dense) was not called in what was recorded"


def test_a_step_in_a_function_says_that_it_was_compiled(model):
    optimizer = keras.optimizers.SGD(0.1)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.where(model(X) > 0.5, 1.0, 0.0))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    with pytest.raises(ValueError, match="No gradients provided") as caught, bp.probe() as rec:
        step()
    assert "tf.function compiles this step, and nothing in it was followed" in caught.value.__notes__[1]
    (finding,) = bp.explain(rec).findings
    assert finding.headline == "the program raised ValueError: No gradients provided for any variable."
    assert finding.source.text == "step()"


def test_a_function_that_leaves_nothing_is_said_to_be_compiled():
    w = tf.Variable([1.0, 2.0])
    step = tf.function(lambda x: tf.gradients(tf.reduce_sum((w * x) ** 2), [w])[0])
    with bp.probe(nonfinite=True) as rec:
        print(step(tf.constant([1.0, 3.0])))
    assert rec.notes[-1].endswith("it ran compiled, as a whole, and left no variable to differentiate")
    assert not any("without nonfinite=True" in note for note in bp.explain(rec).notes)


def test_a_variable_whose_gradient_is_stopped_is_one_that_is_used():
    stopped, trained = tf.Variable([1.0, 2.0], name="stopped"), tf.Variable([1.0, 2.0], name="trained")
    with bp.probe() as rec:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.stop_gradient(stopped) * trained)
        tape.gradient(loss, [stopped, trained])
    report = bp.explain(rec)
    assert report.heading == "1 of 2 parameters got no gradient"
    assert [(one.kind, one.headline) for one in report] == [
        ("stop_gradient", "`tf.stop_gradient(stopped)` cuts 'loss' off from 'stopped'")
    ]
