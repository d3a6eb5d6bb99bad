"""Keras 3 models on TensorFlow: what their layers return and their weights, by path; nothing of them altered."""

import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

import backprobe as bp
import prepared
from asked import round_trip

X = np.linspace(-1, 1, 20, dtype="float32").reshape(4, 5)


def squared(output):
    return tf.reduce_sum(output * output)


@pytest.fixture(autouse=True)
def _seeded():
    keras.utils.set_random_seed(0)


def statuses(rec):
    return {name: str(entry.status) for name, entry in rec.items()}


def same(a, b):
    return np.array_equal(np.asarray(a), np.asarray(b))


def agree_with_a_tape(rec, model, x, **options):
    """The gradients of all trainable weights are bit for bit those of a tape written by hand."""
    with tf.GradientTape() as tape:
        loss = squared(model(x, **options))
    wanted = tape.gradient(loss, model.trainable_variables)
    found = [entry.grad for name, entry in rec.items() if "." in name]
    assert all(any(same(tf.convert_to_tensor(gradient), own) for own in found) for gradient in wanted)


# paths


def functional():
    i = keras.Input((5,))
    h = keras.layers.Dense(6, name="first", activation="relu", bias_initializer="ones")(i)
    joined = keras.layers.Concatenate(name="joined")([h, keras.ops.tanh(h)])
    return keras.Model(i, keras.layers.Dense(2, name="second", bias_initializer="ones")(joined), name="functional")


@pytest.mark.supports("Keras: functional and Sequential models, by the names of their layers", "TensorFlow and Keras")
def test_a_functional_model_by_the_names_of_layers_and_operations():
    model = functional()
    rec = bp.probe(model, of=squared)(X)
    tanh = next(o.name for o in model.operations if "tanh" in o.name)
    assert list(rec) == [
        "first.kernel",
        "first.bias",
        "second.kernel",
        "second.bias",
        "first",
        tanh,
        "joined",
        "second",
        "of()",
    ]
    assert rec["return"] is rec["second"]
    agree_with_a_tape(rec, model, X)
    assert same(rec["joined"].grad[:, 6:], rec[tanh].grad)
    slope = 1 - np.tanh(rec["first"].value) ** 2
    assert np.allclose(rec["first"].grad, rec["joined"].grad[:, :6] + rec[tanh].grad * slope, atol=1e-6)


def test_a_sequential_model():
    model = keras.Sequential([keras.layers.Dense(3, name="a"), keras.layers.Dense(2, name="b")])
    rec = bp.probe(model, of=squared)(X)  # it is built by this call
    assert list(rec) == ["a", "b", "a.kernel", "a.bias", "b.kernel", "b.bias", "of()"]
    assert list(bp.probe(model, of=squared)(X))[:5] == ["a.kernel", "a.bias", "b.kernel", "b.bias", "a"]
    agree_with_a_tape(rec, model, X)


class Block(keras.layers.Layer):
    def __init__(self, width):
        super().__init__()
        self.dense = keras.layers.Dense(width)
        self.scale = self.add_weight(shape=(width,), initializer="ones")

    def call(self, x):
        h = self.dense(x)
        g = keras.ops.gelu(h)
        return g * self.scale + x


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.blocks = [Block(5), Block(5)]
        self.heads = {"left": keras.layers.Dense(2), "right": keras.layers.Dense(2)}
        self.inner = keras.Sequential([keras.layers.Dense(5, name="p"), keras.layers.Dense(5, name="q")])
        self.unused = keras.layers.Dropout(0.5)

    def call(self, x):
        for block in self.blocks:
            x = block(x)
        h = self.inner(x)
        return self.heads["left"](h) + self.heads["right"](h)


MODULES = [
    "blocks.0.dense",
    "blocks.0",
    "blocks.1.dense",
    "blocks.1",
    "inner.p",
    "inner.q",
    "heads.left",
    "heads.right",
    "return",
]


@pytest.mark.supports("Keras: subclassed models, by the path of attributes", "TensorFlow and Keras")
def test_a_subclassed_model_by_attributes():
    model = Net()
    model(X)
    rec = bp.probe(model, of=squared)(X)
    assert [name for name in rec if name.split(".")[-1] not in ("kernel", "bias", "scale")] == [
        *MODULES,
        "unused",
        "of()",
    ]
    assert statuses(rec)["unused"] == "not_executed"
    assert rec["inner"] is rec["inner.q"]
    assert rec["blocks.1.scale"].shape == (5,)
    agree_with_a_tape(rec, model, X)


def test_a_model_that_is_built_by_the_call():
    keras.utils.set_random_seed(0)
    plain = Net()(X)
    keras.utils.set_random_seed(0)
    rec = bp.probe(Net(), of=squared)(X)
    assert same(rec.result, plain)
    assert [name for name in rec if name in MODULES] == MODULES
    assert rec["blocks.0.dense.kernel"].status == "ok"


class Built(keras.Model):
    def build(self, shape):
        self.dense = keras.layers.Dense(2)
        self.dense.build(shape)

    def call(self, x):
        return self.dense(x)


def test_layers_that_are_made_when_the_model_is_built():
    assert list(bp.probe(Built(), of=squared)(X)) == ["dense", "dense.kernel", "dense.bias", "of()"]


class Shared(keras.Model):
    def __init__(self):
        super().__init__()
        self.one = keras.layers.Dense(5)
        self.other = self.one

    def call(self, x):
        return self.other(self.one(x))


@pytest.mark.supports("Keras: shared layers, an entry for each call", "TensorFlow and Keras")
def test_a_shared_layer_has_every_path_and_a_count_for_each_call():
    model = Shared()
    model(X)
    rec = bp.probe(model, of=squared)(X)
    assert list(rec) == ["one.kernel", "one.bias", "one#0", "one#1", "of()"]
    assert rec["one#0"] is rec["other#0"]
    assert rec["one#1"] is rec["return"]
    assert rec["other.kernel"] is rec["one.kernel"]
    agree_with_a_tape(rec, model, X)


# Grad-CAM with a pretrained model inside another: tensorflow#44462, tf-keras-vis#71


@pytest.mark.supports("Keras: Grad-CAM inside a nested model, in one call", "TensorFlow and Keras")
def test_grad_cam_inside_a_nested_model_is_one_call():
    i = keras.Input((8, 8, 3))
    h = keras.layers.Conv2D(4, 3, name="conv1", activation="relu")(i)
    base = keras.Model(i, keras.layers.Conv2D(6, 3, name="conv2", activation="relu")(h), name="base")
    top = [keras.layers.GlobalAveragePooling2D(name="pool"), keras.layers.Dense(3, name="classes")]
    model = keras.Sequential([keras.Input((8, 8, 3)), base, *top])
    images = tf.random.stateless_normal((2, 8, 8, 3), (1, 2))
    rec = bp.probe(model, "base.conv2", of=lambda scores: tf.reduce_sum(scores[:, 1]))(images)
    features = base(images)  # by hand: the model in two halves
    with tf.GradientTape() as tape:
        tape.watch(features)
        score = tf.reduce_sum(top[1](top[0](features))[:, 1])
    assert same(rec["base.conv2"].grad, tape.gradient(score, features))
    assert same(rec["base.conv2"].value, features)
    assert np.abs(rec["base.conv2"].grad).sum() > 0


# what is differentiated


def test_frozen_weights_and_gradients_before_them():
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3, name="a"), keras.layers.Dense(2, name="b")])
    model.trainable = False
    rec = bp.probe(model, of=squared)(X)
    assert statuses(rec) == {
        "a.kernel": "frozen",
        "a.bias": "frozen",
        "b.kernel": "frozen",
        "b.bias": "frozen",
        "a": "ok",
        "b": "ok",
        "of()": "ok",
    }
    assert same(rec["b"].grad, 2 * rec["b"].value)
    assert rec["a.kernel"].reason == "it is a Variable with trainable=False"


def test_integer_inputs_stay_integers_and_sparse_gradients_are_dense():
    model = keras.Sequential([keras.layers.Embedding(6, 3, name="words"), keras.layers.Dense(1, name="d")])
    rec = bp.probe(model, of=squared)(np.array([[1, 2, 1]]))
    assert rec["words.embeddings"].grad.shape == (6, 3)
    assert rec["words.embeddings"].grad.numpy()[[0, 3, 4, 5]].any() == False  # noqa: E712
    agree_with_a_tape(rec, model, np.array([[1, 2, 1]]))


def test_several_inputs_by_position_and_by_name():
    a, b = keras.Input((5,), name="a"), keras.Input((5,), name="b")
    model = keras.Model({"a": a, "b": b}, keras.layers.Subtract(name="difference")([a, b]))
    given = {"a": tf.constant(X), "b": X * 2}
    held = dict(given)
    rec = bp.probe(model, of=squared)(given)
    assert same(rec["difference"].grad, -2 * X)
    assert all(given[key] is held[key] for key in held)


def training():
    return keras.Sequential(
        [
            keras.Input((5,)),
            keras.layers.Dense(8, name="dense"),
            keras.layers.Dropout(0.5, seed=3, name="drop"),
            keras.layers.BatchNormalization(name="norm"),
            keras.layers.Dense(2, name="top"),
        ]
    )


@pytest.mark.supports("Keras: Dropout and BatchNormalization in training", "TensorFlow and Keras")
def test_dropout_and_batch_normalization_in_training():
    keras.utils.set_random_seed(1)
    by_hand, model = training(), None
    with tf.GradientTape() as tape:
        output = by_hand(X, training=True)
        loss = squared(output)
    gradients = tape.gradient(loss, by_hand.trainable_variables)
    keras.utils.set_random_seed(1)
    model = training()
    before = model.get_layer("norm").moving_mean.numpy()
    rec = bp.probe(model, of=squared)(X, training=True)
    assert same(rec.result, output)
    for path, gradient in zip(
        ["dense.kernel", "dense.bias", "norm.gamma", "norm.beta", "top.kernel", "top.bias"], gradients, strict=True
    ):
        assert same(rec[path].grad, gradient), path
    assert (rec["drop"].value.numpy() == 0).any()
    assert same(rec["norm.moving_mean"].value, before)  # as it was when the call began
    assert same(model.get_layer("norm").moving_mean, by_hand.get_layer("norm").moving_mean)
    assert same(model.get_layer("drop").seed_generator.state, by_hand.get_layer("drop").seed_generator.state)
    assert str(rec["norm.moving_mean"].status) == "frozen"


def test_masks_pass_through():
    i = keras.Input((4,), dtype="int32")
    h = keras.layers.Embedding(10, 3, mask_zero=True, name="words")(i)
    model = keras.Model(i, keras.layers.LSTM(2, name="lstm")(h))
    tokens = np.array([[1, 2, 0, 0], [3, 4, 5, 0]])
    for partials in (False, True):
        rec = bp.probe(model, ["lstm", "words", "words.embeddings"], of=squared, partials=partials)(tokens)
        assert same(rec.result, model(tokens))
        assert same(rec["words"].grad[:, -1], np.zeros((2, 3)))
    assert rec.path_sums.agree
    masked = model.get_layer("words")(tokens)
    rec = bp.probe(model.get_layer("lstm"), of=squared)(masked)
    assert same(rec.result, model(tokens))


class Tagger(keras.Model):
    def __init__(self):
        super().__init__()
        self.words = keras.layers.Embedding(10, 3, mask_zero=True)
        self.reader = keras.layers.LSTM(2)

    def call(self, tokens):
        return self.reader(self.words(tokens))


def test_masks_that_hang_on_a_layers_output_pass_through():
    model, tokens = Tagger(), np.array([[1, 2, 0, 0], [3, 4, 5, 0]])
    plain = model(tokens)
    for partials in (False, True):
        rec = bp.probe(model, ["words", "reader"], of=squared, partials=partials)(tokens)
        assert same(rec.result, plain)


@pytest.mark.supports("Keras: mixed precision, masks, frozen weights", "TensorFlow and Keras")
def test_mixed_precision():
    model = keras.Sequential(
        [
            keras.Input((5,)),
            keras.layers.Dense(3, name="a", dtype="mixed_bfloat16"),
            keras.layers.Dense(1, name="b", dtype="mixed_bfloat16"),
        ]
    )
    rec = bp.probe(model, of=squared)(X)
    assert (rec["a"].dtype, rec["a.kernel"].dtype, rec["a.kernel"].grad.dtype.name) == ("bfloat16", *["float32"] * 2)
    agree_with_a_tape(rec, model, X)


# locals of `call`


@pytest.mark.supports("Keras: the locals of a layer's `call`", "TensorFlow and Keras")
def test_locals_of_a_layers_call():
    model = Net()
    model(X)
    rec = bp.probe(model, ["blocks.*:g", "blocks.0"], of=squared)(X)
    assert list(rec) == ["blocks.0:g", "blocks.0", "blocks.1:g", "of()"]
    assert same(rec["blocks.0:g"].grad, rec["blocks.0"].grad)
    assert rec["blocks.0:g"].source.text == "g = keras.ops.gelu(h)"


class Compiled(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(5)

    @tf.function
    def call(self, x):
        h = self.dense(x)
        return h + x


def test_a_call_that_is_a_tf_function_runs_as_python():
    model = Compiled()
    model(X)  # traced and cached: its layers would not be called again
    rec = bp.probe(model, of=squared)(X)
    assert list(rec) == ["dense.kernel", "dense.bias", "dense", "return", "of()"]
    assert "h" in bp.probe(model, ["**", ":*"], of=squared)(X)
    assert same(rec["dense"].grad, 2 * rec["return"].value)
    assert same(rec["dense.bias"].grad, tf.reduce_sum(rec["dense"].grad, 0))
    assert "call" not in vars(model)


@pytest.mark.supports("Keras: a loss of your own around a model", "TensorFlow and Keras")
def test_a_loss_of_the_users_own_around_a_model():
    model = Net()
    model(X)

    def loss(x, y):
        p = model(x)
        l = tf.reduce_mean((p - y) ** 2)
        return l

    rec = bp.probe(loss, wrt="x")(tf.constant(X), tf.ones((4, 2)))
    assert rec["/Net/Block#0:g"].shape == (4, 5)
    with tf.GradientTape() as tape:
        x = tf.constant(X)
        tape.watch(x)
        value = loss(x, tf.ones((4, 2)))
    assert same(rec["x"].grad, tape.gradient(value, x))


# partials


def test_partials_between_layers():
    model = functional()
    tanh = next(o.name for o in model.operations if "tanh" in o.name)
    rec = bp.probe(model, of=squared, partials=True)(X)
    assert rec.path_sums.agree
    assert {edge.name for edge in rec["joined"].inputs} == {"first", tanh}
    assert same(rec["joined"].contributions["first"], rec["joined"].grad[:, :6])
    assert same(rec.result, model(X))
    assert [e.name for e in bp.probe(model, ["first", "second"], of=squared)(X)["second"].inputs] == ["first"]


# nothing of the model or of Keras is altered


def state(model):
    kinds = {base for layer in model._flatten_layers() for base in type(layer).__mro__}
    return (
        {base: vars(base).get("__call__") for base in kinds},
        [(id(layer), sorted(vars(layer))) for layer in model._flatten_layers()],
    )


def test_nothing_is_left_behind():
    model = Net()
    model(X)
    before = state(model)
    for patterns in (None, "**:*", "blocks.*:*"):
        bp.probe(model, patterns, of=squared, partials=True)(X)
        assert state(model) == before
    with pytest.raises(ValueError, match="incompatible"):
        bp.probe(model, "**:*", of=squared)(np.ones((4, 3), "float32"))
    assert state(model) == before


class Waiting(keras.layers.Layer):
    """Lets another thread call the model while this one is inside it."""

    def call(self, x):
        if threading.current_thread() is threading.main_thread() and hasattr(self, "turn"):
            self.turn.set()
            self.go.wait(20)
        h = x * 1.0
        return h


def test_another_thread_that_calls_the_model_reports_nothing():
    layers = [keras.layers.Dense(5, name="before"), Waiting(name="waits"), keras.layers.Dense(5, name="after")]
    model = keras.Sequential([keras.Input((5,)), *layers])
    layers[1].turn, layers[1].go = threading.Event(), threading.Event()
    results = []

    def elsewhere():
        layers[1].turn.wait(20)
        results.append(model(X))
        layers[1].go.set()

    bare = threading.Thread(target=elsewhere)
    before = state(model)
    bare.start()
    rec = bp.probe(model, ["waits:h", "*.kernel", "before", "after"], of=squared)(X)
    bare.join(20)
    assert list(rec) == ["before.kernel", "after.kernel", "before", "waits:h", "after", "of()"]
    assert same(results[0], rec.result)
    assert state(model) == before


def test_a_probe_of_one_model_inside_that_of_another():
    inner = keras.Sequential([keras.Input((5,)), keras.layers.Dense(5, name="deep")])
    found = []

    class Outer(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(5)
            self.inner = inner

        def call(self, x):
            found.append(bp.probe(inner, of=squared)(x))
            return self.inner(self.dense(x))

    model = Outer()
    model(X)
    before = state(model)
    rec = bp.probe(model, of=squared)(X)
    assert list(found[-1]) == ["deep.kernel", "deep.bias", "deep", "of()"]
    assert [name for name in rec if "deep" in name] == [
        "inner.deep.kernel",
        "inner.deep.bias",
        "inner.deep#0",
        "inner.deep#1",
    ]
    assert state(model) == before


class Doubling(keras.layers.Dense):
    def __call__(self, *args, **kwargs):
        return 2.0 * super().__call__(*args, **kwargs)


def test_what_the_caller_of_a_layer_gets_is_what_is_reported():
    model = keras.Sequential([keras.Input((5,)), Doubling(3, name="double"), keras.layers.Dense(2, name="top")])
    rec = bp.probe(model, of=squared)(X)
    assert np.allclose(rec["double"].value, 2 * (X @ rec["double.kernel"].value.numpy()))
    assert list(rec).count("double") == 1


# saving and refusing


def test_a_recording_of_a_model_is_saved_and_drawn(tmp_path):
    rec = bp.probe(functional(), of=squared, partials=True)(X)
    assert str(round_trip(rec, tmp_path)) == str(rec)
    assert "first.kernel" in str(bp.draw(rec).svg)


def test_a_keras_tensor_is_refused():
    with pytest.raises(bp.Unsupported, match="^a KerasTensor is a symbol without values"):
        bp.probe(functional())(keras.Input((5,)))


OTHER = """
import os
os.environ["KERAS_BACKEND"] = {backend!r}
import tensorflow as tf, {framework}, keras, numpy, backprobe as bp
from backprobe.backends.discover import find_backend, load_backend
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, name="d")])
{check}
"""


def run_on(backend, framework, check):
    code = OTHER.format(backend=backend, framework=framework, check=check)
    done = prepared.run("torch", "-c", code)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()


def test_keras_on_pytorch_belongs_to_pytorch():
    check = "print(find_backend(None, [model]).name, load_backend('tensorflow').models.is_model(model))"
    assert run_on("torch", "torch", check)[-1] == "torch False"


def test_keras_on_jax_is_refused_by_tensorflow():
    check = (
        "try: bp.probe(model, backend='tensorflow')(numpy.ones((1, 2), 'float32'))\n"
        "except bp.Unsupported as error: print(error.headline, '|', error.found)"
    )
    assert run_on("jax", "jax", check)[-1] == "this Keras layer does not compute with TensorFlow | Keras on jax"


def test_errors_of_ours_pass_the_calls_of_layers_as_they_are():
    """Keras makes a new error of one that passes a call: without the parts, and of another type where it takes more."""
    inner = keras.Sequential([keras.layers.Dense(2)], name="inner")
    outer = keras.Sequential([inner, keras.layers.Dense(1)])
    outer(tf.ones((1, 3)))
    with pytest.raises(bp.BadOption) as caught:
        bp.probe(outer, of=tf.reduce_sum, replace={"inner": 3})(tf.ones((1, 3)))
    assert caught.value.headline.endswith("has another shape")
    assert caught.value.next
    with pytest.raises(bp.NotFinite) as stopped, bp.guard(inner):
        outer(tf.fill((1, 3), float("nan")))
    assert stopped.value.report.findings
