"""Gradients of TensorFlow scripts that are there, and useless: each fact, and healthy programs that look like it.

The line with ``# <- here`` is the one that must be named.
"""

import contextlib
import io
import json
import re
import runpy
import textwrap

import keras
import pytest

from commands import in_folder, invoked
from sampled import every

BEGIN = """\
import keras, numpy as np, tensorflow as tf
from keras import layers
keras.utils.set_random_seed(0)
"""
DATA = """\
x, y, column = tf.random.normal([16, 4]), tf.random.normal([16]), tf.random.normal([16, 1])
t = tf.random.uniform([16], 0, 3, tf.int32)
one_hot = tf.one_hot(t, 3)
"""
NET = """\
net = keras.Sequential([layers.Dense(8, activation="tanh"), layers.Dense({})])
head = layers.Dense(1)
net(x), head(net(x))
"""
STEP = """\
opt = keras.optimizers.SGD(1e-2)
for step in range(3):
    with tf.GradientTape() as tape:
{}
    gradients = tape.gradient(loss, trained)
    opt.apply_gradients(zip(gradients, trained))
"""
FIT = """\
x = np.random.randn(64, 4).astype("float32")
"""


def looped(outputs, body, trained="net.trainable_variables", more="", line=False):
    """A training of three iterations with a tape."""
    step = STEP.format(textwrap.indent(textwrap.dedent(body), " " * 8))
    if line:
        step = step.replace("zip(gradients, trained))", "zip(gradients, trained))  # <- here")
    setup = BEGIN + DATA + NET.format(outputs) + textwrap.dedent(more)
    return setup + f"trained = {trained}\n" + step


def fitted(made, targets, loss, setup="", fit="model.fit(x, y, batch_size=16, verbose=0)  # <- here"):
    """A model of these layers that Keras trains."""
    model = f"model = keras.Sequential([{made}])\nmodel.compile(keras.optimizers.Adam(1e-3), {loss})\n"
    return BEGIN + textwrap.dedent(setup) + FIT + f"y = {targets}\n" + model + fit + "\n"


BOTH = "net.trainable_variables + head.trainable_variables"
CLASSES = "np.random.randint(0, 3, 64)"
HIDDEN = "layers.Dense(8, activation='relu')"
OWN_STEP = """\
class Model(keras.Model):
    def __init__(self):
        super().__init__()
        self.a, self.b = layers.Dense(8, activation="relu"), layers.Dense(1)

    def call(self, x):
        return self.b(self.a(x))

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            predicted = self(x, training=True)
            loss = {}
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {{"loss": loss}}

x = np.random.rand(64, 4).astype("float32")
model = Model()
model.compile("adam")
model.fit(tf.data.Dataset.from_tensor_slices((x, x.sum(1))).batch(16), verbose=0, shuffle=False)
"""

FAULTY = {
    "outer: a target of one dimension": (
        "outer_product", looped(1, "loss = tf.reduce_mean(tf.square(y - net(x)))  # <- here")),
    "outer: with a function of Huber": ("outer_product", looped(1, """\
        error = column - tf.squeeze(net(x), -1)  # <- here
        loss = tf.reduce_mean(tf.where(tf.abs(error) < 1, 0.5 * error ** 2, tf.abs(error) - 0.5))
        """)),
    "outer: in a step of a model": (
        "outer_product", BEGIN + OWN_STEP.format("tf.reduce_mean(tf.abs(predicted - y))  # <- here")),
    "outer: of a loss class, a mean of means": ("outer_product", fitted(
        f"{HIDDEN}, layers.Dense(1)", "x.sum(1)", "Own()", """\
        class Own(keras.losses.Loss):
            def call(self, y_true, y_pred):
                return tf.reduce_mean(tf.square(y_true - y_pred), axis=-1)  # <- here
        """, "model.fit(x, y, batch_size=16, verbose=0)")),
    "twice: of operations": ("distribution_twice", looped(3, """\
        p = tf.nn.softmax(net(x))
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=t, logits=p)  # <- here
        loss = tf.reduce_mean(each)
        """)),
    "twice: of a loss of Keras": ("distribution_twice", looped(3, """\
        p = tf.nn.softmax(net(x))
        loss = keras.losses.CategoricalCrossentropy(from_logits=True)(one_hot, p)  # <- here
        """)),
    "twice: in fit, where Keras cannot undo it": ("distribution_twice", fitted(
        f"{HIDDEN}, layers.Dense(3, activation='softmax'), layers.Reshape([3])", CLASSES,
        "keras.losses.SparseCategoricalCrossentropy(from_logits=True)")),
    "twice: two layers, of which Keras undoes one": ("distribution_twice", fitted(
        f"{HIDDEN}, layers.Dense(3, activation='softmax'), layers.Softmax()", CLASSES,
        "'sparse_categorical_crossentropy'")),
    "no probabilities: of classes": ("not_log_probabilities", fitted(
        f"{HIDDEN}, layers.Dense(3)", CLASSES, "'sparse_categorical_crossentropy'")),
    "no probabilities: of one unit": ("not_log_probabilities", fitted(
        f"{HIDDEN}, layers.Dense(1)", "np.random.randint(0, 2, 64)", "'binary_crossentropy'")),
    "no probabilities: of rows, with train_on_batch": ("not_log_probabilities", fitted(
        f"{HIDDEN}, layers.Dense(3)", f"keras.utils.to_categorical({CLASSES}, 3)", "'categorical_crossentropy'",
        fit="for at in range(0, 64, 16):\n    model.train_on_batch(x[at:at + 16], y[at:at + 16])  # <- here")),
    "no log-probabilities: picked by an index": ("not_log_probabilities", looped(3, """\
        each = -tf.gather(net(x), t, axis=1, batch_dims=1)  # <- here
        loss = tf.reduce_mean(each)
        """)),
    "no log-probabilities: picked by rows": ("not_log_probabilities", looped(3, """\
        loss = -tf.reduce_mean(tf.reduce_sum(one_hot * net(x), axis=1))  # <- here
        """)),
    "flat: clipped": ("zero_flat", looped(1, """\
        factor = tf.clip_by_value(scale, 0.0, 1.0)  # <- here
        loss = tf.reduce_mean(tf.square(net(x) * factor - column))
        """, "net.trainable_variables + [scale]", "scale = tf.Variable(5.0)\n")),
    "flat: sigmoids that are full": ("zero_flat", looped(8, """\
        loss = tf.reduce_mean(tf.square(head(tf.sigmoid(1e6 * net(x) + 1e9)) - column))  # <- here
        """, BOTH)),
    "flat: dead units in fit": ("zero_flat", fitted(
        "layers.Dense(8, activation='relu', bias_initializer=keras.initializers.Constant(-50.0)), layers.Dense(1)",
        "x.sum(1)", "'mse'")),
    "times zero: a mask": ("zero_times_zero", looped(1, """\
        loss = tf.reduce_mean(tf.square(net(x) + head(x) * mask - column))  # <- here
        """, BOTH, "head = layers.Dense(1)\nhead(x)\nmask = tf.zeros([16, 1])\n")),
    "times zero: an advantage": ("zero_times_zero", looped(3, """\
        chosen = -tf.nn.sparse_softmax_cross_entropy_with_logits(labels=t, logits=net(x))
        reward = tf.ones([16])
        advantage = reward - tf.reduce_mean(reward)
        loss = tf.reduce_mean(tf.square(head(net(x)) - 1)) * 0 - tf.reduce_mean(chosen * advantage)  # <- here
        loss = loss + tf.reduce_mean(tf.square(other(x)))
        """, "net.trainable_variables + other.trainable_variables", "other = layers.Dense(1)\nother(x)\n")),
    "cancels: a weight divided by its own sum": ("cancels", looped(8, """\
        weight = tf.exp(head(x))
        weight = weight / tf.reduce_sum(weight, axis=1, keepdims=True)  # <- here
        loss = tf.reduce_mean(tf.square(net(x) * weight - column))
        """, BOTH, "head = layers.Dense(1)\nhead(x)\n")),
    "cancels: in a large program": ("cancels", looped(8, """\
        weight = tf.exp(head(x))
        weight = weight / tf.reduce_sum(weight, axis=1, keepdims=True)  # <- here
        loss = tf.reduce_mean(tf.square(net(x) * weight - column))
        """, BOTH, """\
        x, column = tf.random.normal([400_000, 4]), tf.random.normal([400_000, 1])
        head = layers.Dense(1)
        head(x)
        """)),
    "cancels: a norm of one unit": ("cancels", looped(1, """\
        loss = tf.reduce_mean(tf.square(head(tf.math.l2_normalize(net(x), axis=1)) - column))  # <- here
        """, BOTH)),
    "still: in 16 bits": ("step_without_effect", looped(
        1, "loss = tf.reduce_mean(tf.square(tf.cast(x, tf.bfloat16) @ w - 1))", "[w]",
        "w = tf.Variable(tf.cast(tf.random.normal([4, 1]) + 5, tf.bfloat16))\n", line=True).replace("1e-2", "1e-6")),
    "still: in fit": ("step_without_effect", fitted(
        "layers.Dense(8, activation='tanh', bias_initializer='ones'), layers.Dense(1, bias_initializer='ones')",
        "x.sum(1)", "'mse'").replace("Adam(1e-3)", "SGD(1e-12)")),
    "dropped: a sum": ("result_dropped", looped(1, """\
        loss = tf.reduce_mean(tf.square(net(x) - column))
        loss + 0.1 * tf.reduce_sum(tf.square(net.layers[0].kernel))  # <- here
        """)),
    "dropped: a function of TensorFlow": ("result_dropped", looped(8, """\
        h = net(x)
        tf.nn.relu(h)  # <- here
        loss = tf.reduce_mean(tf.square(head(h) - column))
        """, BOTH)),
    "dropped: in a layer of the program": ("result_dropped", looped(1, """\
        loss = tf.reduce_mean(tf.square(own(x) - column))
        """, "own.trainable_variables", """\
        class Own(layers.Layer):
            def __init__(self):
                super().__init__()
                self.a, self.b = layers.Dense(8), layers.Dense(1)

            def call(self, x):
                h = self.a(x)
                tf.clip_by_value(h, -1.0, 1.0)  # <- here
                return self.b(h)

        own = Own()
        own(x)
        """)),
    "dropped: a penalty of a function of several operations": ("result_dropped", looped(1, """\
        loss = tf.reduce_mean(tf.square(net(x) - column))
        tf.add_n([loss, tf.nn.l2_loss(net.layers[0].kernel)])  # <- here
        """)),
}  # fmt: skip
HEALTHY = {
    "convolutions, norms and dropout in fit": BEGIN + """\
x, y = np.random.randn(64, 8, 8, 1).astype("float32"), np.random.randint(0, 4, 64)
model = keras.Sequential([
    layers.Conv2D(4, 3), layers.BatchNormalization(), layers.ReLU(), layers.MaxPooling2D(), layers.Flatten(),
    layers.Dropout(0.5), layers.Dense(16), layers.BatchNormalization(), layers.Dense(4, activation="softmax")])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x, y, batch_size=16, verbose=0)
""",
    "masked embeddings": BEGIN + """\
x, y = np.random.randint(0, 20, (32, 6)), np.random.randint(0, 2, 32)
x[:, 4:] = 0
model = keras.Sequential([layers.Embedding(20, 8, mask_zero=True), layers.LSTM(8), layers.Dense(1, "sigmoid")])
model.compile("rmsprop", "binary_crossentropy")
model.fit(x, y, batch_size=8, verbose=0)
""",
    "attention": BEGIN + """\
tokens = keras.Input([6], dtype="int32")
h = layers.Embedding(20, 16)(tokens)
h = layers.LayerNormalization()(h + layers.MultiHeadAttention(2, 8)(h, h, use_causal_mask=True))
h = layers.LayerNormalization()(h + layers.Dense(16)(layers.Dense(32, activation="gelu")(h)))
model = keras.Model(tokens, layers.Dense(20)(h))
model.compile(keras.optimizers.AdamW(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
x = np.random.randint(0, 20, (32, 6))
model.fit(x, np.roll(x, -1, 1), batch_size=8, verbose=0)
""",
    "a softmax that Keras undoes": fitted(
        f"{HIDDEN}, layers.Dense(3, activation='softmax')", CLASSES,
        "keras.losses.SparseCategoricalCrossentropy(from_logits=True)",
        "import warnings\nwarnings.simplefilter('ignore')\n"),
    "a softmax that Keras undoes where it compiles": BEGIN + """\
class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.a = layers.Dense(3)

    def call(self, x):
        return tf.nn.softmax(self.a(x))

x, y = np.random.randn(64, 4).astype("float32"), np.random.randint(0, 3, 64)
model = Net()
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(x, y, batch_size=16, verbose=0)
""",
    "layers that begin at 0": looped(4, """\
        out = x + last(net(x)) + (x @ a) @ b
        loss = tf.reduce_mean(tf.square(out - 1))
        """, "net.trainable_variables + last.trainable_variables + [a, b]", """\
        last = layers.Dense(4, kernel_initializer="zeros")
        last(net(x))
        a, b = tf.Variable(tf.random.normal([4, 2])), tf.Variable(tf.zeros([2, 4]))
        """),
    "all pairs, asked for": looped(1, """\
        score = net(x)[:, 0]
        wanted = tf.sign(y[:, None] - y[None, :])
        near = tf.exp(-tf.square(tf.transpose(net(x)) - net(x)))
        loss = tf.reduce_mean(tf.nn.relu(1 - (tf.expand_dims(score, 1) - score) * wanted)) + tf.reduce_mean(near)
        """),
    "each with all others, then a weighted sum": looped(1, """\
        hills = tf.exp(-tf.square(net(x) - y))
        loss = tf.reduce_mean(tf.square(head(hills) - column))
        """, "net.trainable_variables + head.trainable_variables", "head = layers.Dense(1)\nhead(y * column)\n"),
    "a linear layer by hand of as many units as samples": looped(1, """\
        loss = tf.reduce_mean(tf.square(column * w + b - tf.ones([16, 16])))
        """, "[w, b]", "w, b = tf.Variable(tf.ones([16])), tf.Variable(tf.ones([16]))\n"),
    "scores, energies and margins": looped(3, """\
        s = net(x)
        loss = -tf.reduce_mean(tf.gather(s, t, batch_dims=1)) + tf.reduce_mean(tf.reduce_logsumexp(s, 1))
        """),
    "the scores of what was chosen": looped(3, "loss = tf.reduce_mean((1 - tf.reduce_sum(one_hot * net(x), 1)) ** 2)"),
    "a likelihood by hand": looped(3, """\
        loss = -tf.reduce_mean(tf.reduce_sum(one_hot * tf.nn.log_softmax(net(x)), 1))
        """),
    "a policy with a clipped ratio and its entropy": looped(3, """\
        logits = net(x)
        p, chosen = tf.nn.softmax(logits), tf.gather(tf.nn.log_softmax(logits), t, batch_dims=1)
        ratio, advantage = tf.exp(chosen - tf.stop_gradient(chosen)), y - tf.reduce_mean(y)
        clipped = tf.clip_by_value(ratio, 0.8, 1.2)
        entropy = -tf.reduce_mean(tf.reduce_sum(p * tf.math.log(tf.clip_by_value(p, 1e-8, 1.0)), 1))
        loss = -tf.reduce_mean(tf.minimum(ratio * advantage, clipped * advantage)) - 0.01 * entropy
        """),
    "a penalty of gradients": looped(1, """\
        with tf.GradientTape() as inner:
            inner.watch(x)
            score = net(x)
        slope = inner.gradient(score, x)
        loss = tf.reduce_mean(score) + 10 * tf.reduce_mean((tf.norm(slope, axis=1) - 1) ** 2)
        """),
    "mixed precision": fitted(
        f"{HIDDEN}, layers.Dense(3), layers.Activation('softmax', dtype='float32')", CLASSES,
        "'sparse_categorical_crossentropy'", "keras.config.set_dtype_policy('mixed_float16')\n",
        ),
    "a learning rate that begins at 0": fitted(
        f"{HIDDEN}, layers.Dense(1)", "x.sum(1)", "'mse'").replace(
        "Adam(1e-3)", "SGD(keras.optimizers.schedules.CosineDecay(0.0, 90, warmup_target=1e-3, warmup_steps=50))"),
    "double precision, with a frozen part and a target that is stopped": looped(8, """\
        p = tf.math.l2_normalize(head(base(x)), 1)
        z = tf.stop_gradient(tf.math.l2_normalize(base(x), 1))
        loss = 2 - 2 * tf.reduce_mean(tf.reduce_sum(p * z, 1))
        """, "head.trainable_variables", """\
        x = tf.cast(x, tf.float64)
        base, head = (layers.Dense(8, activation="relu", dtype="float64") for _ in range(2))
        head(base(x))
        base.trainable = False
        """),
    "two networks that play against each other": BEGIN + DATA + """\
make, judge = (keras.Sequential([layers.Dense(8), layers.LeakyReLU(), layers.Dense(n)]) for n in (4, 1))
loss_of, opts = keras.losses.BinaryCrossentropy(from_logits=True), [keras.optimizers.Adam(1e-4) for _ in range(2)]

@tf.function
def play():
    with tf.GradientTape() as one, tf.GradientTape() as two:
        made = make(tf.random.normal([16, 3]))
        real, fake = judge(x), judge(made)
        first = loss_of(tf.ones_like(fake), fake)
        second = loss_of(tf.ones_like(real), real) + loss_of(tf.zeros_like(fake), fake)
    for tape, loss, net, opt in zip((one, two), (first, second), (make, judge), opts):
        opt.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))

for step in range(3):
    play()
""",
    # results that nothing uses, on purpose: half of them as guides of TensorFlow and Keras have them
    "checks of numbers": looped(1, """\
        # https://www.tensorflow.org/api_docs/python/tf/debugging
        out = net(x)
        tf.debugging.check_numerics(out, "bad")
        tf.debugging.assert_near(out, out + 0.0)
        tf.debugging.assert_all_finite(out, "bad")
        tf.debugging.assert_shapes([(out, (16, 1))])
        tf.debugging.assert_less(tf.abs(out), 1e6)
        loss = tf.reduce_mean(tf.square(out - column))
        """),
    "prints": looped(1, """\
        # https://www.tensorflow.org/api_docs/python/tf/print
        loss = tf.reduce_mean(tf.square(net(x) - column))
        tf.print(loss * 2, "is twice the loss", output_stream=f"file://{made}")
        """, more="import os, tempfile\nmade = os.path.join(tempfile.mkdtemp(), 'log')\n"),
    "a graph of what runs": looped(1, """\
        # https://www.tensorflow.org/api_docs/python/tf/summary/write
        loss = tf.reduce_mean(tf.square(net(x) - column))
        with writer.as_default(step=step):
            tf.summary.write("loss", loss)
            tf.summary.write("out", tf.reduce_mean(net(x), 0))
        """, more="import tempfile\nwriter = tf.summary.create_file_writer(tempfile.mkdtemp())\n"),
    "a layer that is called to be built": looped(1, """\
        # https://keras.io/guides/making_new_layers_and_models_via_subclassing/
        if step == 0:
            net(x), head(net(x))
        net(x)
        loss = tf.reduce_mean(tf.square(net(x) - column))
        """),
    "metrics": looped(1, """\
        # https://keras.io/guides/writing_a_custom_training_loop_in_tensorflow/
        out = net(x)
        loss = tf.reduce_mean(tf.square(out - column))
        mean.update_state(loss)
        error(column, out)
        """, more="mean, error = keras.metrics.Mean(), keras.metrics.MeanSquaredError()\n"),
    "a Variable that counts": looped(1, """\
        # https://www.tensorflow.org/guide/variable
        out = net(x)
        mean.assign(0.9 * mean + 0.1 * tf.reduce_mean(out))
        total.assign_add(tf.reduce_sum(tf.abs(out)))
        rows.scatter_nd_update([[0]], [tf.reduce_mean(out)])
        loss = tf.reduce_mean(tf.square(out - column))
        """, more="mean, total = tf.Variable(0.0, trainable=False), tf.Variable(0.0, trainable=False)\n"
             "rows = tf.Variable(tf.zeros([4]), trainable=False)\n"),
    "numbers that go to Python": looped(1, """\
        # https://www.tensorflow.org/api_docs/python/tf/py_function
        out = net(x)
        tf.py_function(lambda one: float(tf.reduce_mean(one)), [out], tf.float32)
        tf.numpy_function(lambda one: one.mean(), [out], tf.float32)
        loss = tf.reduce_mean(tf.square(out - column))
        loss.numpy()
        """),
    "what passes on": looped(1, """\
        out = net(x)
        tf.identity(out); tf.ensure_shape(out, [16, 1]); tf.stop_gradient(out); tf.convert_to_tensor(out)
        tf.reshape(out, [16, 1]); out.shape; tf.shape(out); tf.argmax(out, -1); tf.reduce_mean(x)
        loss = tf.reduce_mean(tf.square(out - column))
        """),
    "functions of the program": looped(1, """\
        out = net(x)
        keep(out)
        [keep(out) for _ in range(2)]
        _ = tf.abs(out)
        loss = tf.reduce_mean(tf.square(out - column))
        """, more="""\
        kept = []
        def keep(one):
            kept.append(tf.reduce_mean(one))
            return one * 2
        """),
    "penalties that a layer adds": looped(1, """\
        # https://keras.io/guides/making_new_layers_and_models_via_subclassing/
        loss = tf.reduce_mean(tf.square(own(x) - column)) + sum(own.losses)
        """, "own.trainable_variables", """\
        class Own(layers.Layer):
            def __init__(self):
                super().__init__()
                self.a = layers.Dense(1, kernel_regularizer="l2")

            def call(self, x):
                out = self.a(x)
                self.add_loss(1e-2 * tf.reduce_sum(tf.square(out)))
                return out

        own = Own()
        own(x)
        """),
    "a gradient for its look": looped(1, """\
        # https://www.tensorflow.org/guide/advanced_autodiff
        with tf.GradientTape() as inner:
            inner.watch(x)
            out = net(x)
        inner.gradient(out, x)
        loss = tf.reduce_mean(tf.square(out - column))
        """),
}  # fmt: skip


@pytest.fixture(autouse=True)
def float32():
    """Keras has the policy that it had, also where a script that sets another was stopped."""
    before = keras.config.dtype_policy()
    yield
    keras.config.set_dtype_policy(before)


def explained(text, tmp_path, monkeypatch, *options):
    """The status, the findings and the notes of ``backprobe explain`` of a script."""
    with in_folder(tmp_path, monkeypatch, {"train.py": text}):
        code, out, err = invoked("explain", "--json", *options, "train.py")
    assert out, err
    report = json.loads(out[out.index("{") :])
    return code, report["findings"], report["notes"]


@pytest.mark.parametrize("case", every(2, FAULTY))
def test_a_useless_gradient_is_found_at_its_line(case, tmp_path, monkeypatch):
    kind, text = FAULTY[case]
    code, findings, _ = explained(text, tmp_path, monkeypatch)
    line = next(at for at, one in enumerate(text.splitlines(), 1) if one.endswith("# <- here"))
    assert code == 1
    assert {(one["kind"], one["source"]["line"]) for one in findings} == {(kind, line)}, findings


@pytest.mark.parametrize("case", every(4, HEALTHY))
def test_nothing_is_said_of_a_healthy_training(case, tmp_path, monkeypatch):
    code, findings, _ = explained(HEALTHY[case], tmp_path, monkeypatch)
    assert (code, findings) == (0, [])


ELSEWHERE = {
    "flat: dead units in fit": "it is in the layer 'dense', of the class Dense",
    "twice: in fit, where Keras cannot undo it": "it is in the loss 'sparse_categorical_crossentropy'",
    "twice: two layers, of which Keras undoes one": "it is in the loss 'sparse_categorical_crossentropy'",
    "flat: sigmoids that are full": None,
}


@pytest.mark.parametrize("case", ELSEWHERE)
def test_the_layer_or_loss_is_named_where_the_line_is_that_of_all(case, tmp_path, monkeypatch):
    keras.backend.clear_session()  # whose numbers go into the names of layers
    _, (finding, *_), _ = explained(FAULTY[case][1], tmp_path, monkeypatch)
    said = [fact for fact in finding["facts"] if fact.startswith("it is in")]
    assert said == ([ELSEWHERE[case]] if ELSEWHERE[case] else [])


def test_a_layer_within_a_layer_has_a_path(tmp_path, monkeypatch):
    inner = "keras.Sequential([layers.Dense(4), layers.Activation('relu', name='squash')], name='body')"
    setup = "low = keras.initializers.Constant(-50.0)\n"
    inner = inner.replace("Dense(4)", "Dense(4, bias_initializer=low)")
    text = fitted(f"{inner}, layers.Dense(1)", "x.sum(1)", "'mse'", setup)
    _, (finding, *_), _ = explained(text, tmp_path, monkeypatch)
    assert finding["facts"][-1] == "it is in the layer 'body.squash', of the class Activation"


def in_dtype(text, dtype):
    """A training with a tape in another dtype, whose steps are above or below its rounding as before."""
    text = text.replace(BEGIN, f"{BEGIN}D = '{dtype}'\nkeras.config.set_dtype_policy(D)\n")
    made = re.sub(r"(tf\.(?:random\.normal|ones|zeros)\(\[[^\]]*\])\)", r"\1, dtype=D)", text)
    made = re.sub(r"tf\.Variable\((-?[\d.]+)\)", r"tf.Variable(tf.constant(\1, D))", made)
    made = made.replace("one_hot(t, 3)", "one_hot(t, 3, dtype=D)").replace("tf.bfloat16", "D")
    return made.replace("1e-6", "1e-20") if dtype == "float64" else made.replace("SGD(1e-2)", "SGD(1e-1)")


TAPED = [case for case, (_, text) in FAULTY.items() if STEP[:30] in text and not ("class " in text or "large" in case)]


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
@pytest.mark.parametrize("case", every(4, TAPED))
def test_a_useless_gradient_is_found_in_other_dtypes(case, dtype, tmp_path, monkeypatch):
    kind, text = FAULTY[case]
    text = in_dtype(text, dtype)
    code, findings, _ = explained(text, tmp_path, monkeypatch)
    line = next(at for at, one in enumerate(text.splitlines(), 1) if one.endswith("# <- here"))
    assert code == 1
    assert {(one["kind"], one["source"]["line"]) for one in findings} == {(kind, line)}, findings


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_nothing_is_said_of_two_terms_that_pull_on_a_scale(dtype, tmp_path, monkeypatch):
    text = looped(
        1,
        """\
        sigma = tf.exp(raw)
        loss = tf.reduce_mean(tf.square((net(x) - column) / sigma) / 2 + tf.math.log(sigma))
        """,
        "net.trainable_variables + [raw]",
        "raw = tf.Variable(0.0)\n",
    )
    code, findings, _ = explained(in_dtype(text, dtype), tmp_path, monkeypatch)
    assert (code, findings) == (0, [])


def test_a_gradient_that_is_zero_in_the_only_iteration_is_a_note(tmp_path, monkeypatch):
    _, text = FAULTY["flat: clipped"]
    code, findings, notes = explained(text.replace("range(3)", "range(1)"), tmp_path, monkeypatch)
    assert (code, findings) == (0, [])
    assert [one for one in notes if "minimum" in one and "'scale'" in one]


def test_a_cause_of_all_gradients_that_are_zero_hangs_beneath_them(tmp_path, monkeypatch):
    text = looped(1, "loss = tf.reduce_mean(tf.square(tf.clip_by_value(net(x), 1e3, 1e4) - column))  # <- here")
    code, (root, cause), _ = explained(text, tmp_path, monkeypatch)
    assert (root["kind"], cause["kind"], cause["cause"]) == ("all_zero", "zero_flat", root["headline"])
    assert (code, text.splitlines()[cause["source"]["line"] - 1].endswith("# <- here")) == (1, True)


def test_a_softmax_of_single_elements_is_found_on_every_processor(tmp_path, monkeypatch):
    """Of eight or more it is 1 exactly on some, and less than 1 by rounding on others, as are all gradients then."""
    text = looped(1, "loss = tf.reduce_mean(tf.square(tf.nn.softmax(net(x)) - column))  # <- here")
    code, found, _ = explained(text, tmp_path, monkeypatch)
    assert (code, {one["source"]["line"] for one in found}) == (1, {text[: text.index("# <- here")].count("\n") + 1})


def test_numbers_are_those_of_a_run_without_it(tmp_path, monkeypatch):
    text = looped(
        1,
        """\
        h = tf.nn.dropout(net(x), 0.5) + tf.random.normal([16, 1])
        loss = tf.reduce_mean(tf.square(column - h)) + 1e-3 * tf.reduce_sum(tf.gather(head(h), t))
        print(float(loss).hex())
        """,
        BOTH,
    )
    (tmp_path / "plain.py").write_text(text)
    with in_folder(tmp_path, monkeypatch, {"train.py": text}):
        _, out, _ = invoked("explain", "--steps", "3", "train.py")
        with contextlib.redirect_stdout(io.StringIO()) as plain:
            runpy.run_path("plain.py")
    assert out.splitlines()[:3] == plain.getvalue().splitlines()


@pytest.mark.filterwarnings("ignore:You are using a softmax")  # of Keras
@pytest.mark.parametrize("gate", ["layers.Dense(1, activation='softmax')", "layers.Dense(1), layers.Softmax()"])
def test_a_gate_that_gives_the_same_whatever_it_is_given(gate, tmp_path, monkeypatch):
    more = f"""
        gate = keras.Sequential([{gate}])
        gate(x)
        """
    text = looped(
        1,
        "loss = tf.reduce_mean(tf.square(net(x) * gate(x) - column))  # <- here",
        "net.trainable_variables + gate.trainable_variables",
        more,
    )
    with in_folder(tmp_path, monkeypatch, {"train.py": text}):
        code, out, err = invoked("explain", "train.py")
    line = next(number for number, each in enumerate(text.splitlines(), 1) if each.endswith("# <- here"))
    assert code == 1, (out, err)
    assert f"softmax gives the same whatever it is given (train.py:{line}): the gradient of 'gate." in out, out
