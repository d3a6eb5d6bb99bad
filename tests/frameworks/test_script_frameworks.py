"""``backprobe explain train.py`` of programs of TensorFlow, Keras and JAX: the parameters that get no gradient."""

import re
import sys

import pytest

from commands import invoked

KERAS = """\
import numpy as np
import tensorflow as tf
import keras

class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.enc, self.mid, self.spare, self.head = (keras.layers.Dense(n) for n in (4, 4, 4, 1))
        self.scale = self.add_weight(shape=(4,), initializer="ones", name="scale")

    def build(self, shape):
        self.spare.build((None, 4))
        super().build(shape)

    def call(self, x):
"""
LOOP = """

def train():
    net = Net()
    optimizer = keras.optimizers.SGD(0.1)
    for step in range(3):
        x, y = tf.random.normal((8, 3)), tf.random.normal((8, 1))
        with tf.GradientTape() as tape:
            out = net(x)
            loss = tf.reduce_mean((out - y) ** 2)
        gradients = tape.gradient(loss, net.trainable_variables)
        pairs = [(g, v) for g, v in zip(gradients, net.trainable_variables) if g is not None]
        optimizer.apply_gradients(pairs)
        print("step", step)

train()
"""
FIT = """

import warnings
warnings.simplefilter("ignore")  # Keras says that gradients are missing
keras.utils.set_random_seed(0)  # all of four units may be dead: each sample is the same
net = Net()
net.compile(optimizer="sgd", loss="mse")
x, y = np.ones((32, 3), "float32"), np.ones((32, 1), "float32")
net.fit(x, y, epochs=2, batch_size=8, verbose=0)
print("end")
"""
VARIABLES = """\
import tensorflow as tf
w, b = tf.Variable(tf.ones((3, 4))), tf.Variable(tf.zeros(4))
v, spare = tf.Variable(tf.ones((4, 1))), tf.Variable(1.0)
x, y = tf.random.normal((8, 3)), tf.random.normal((8, 1))
for epoch in range(3):
    with tf.GradientTape() as tape:
        h = tf.tanh(x @ w + b)
        k = tf.round(h)
        loss = tf.reduce_mean((k @ v - y) ** 2)
    parameters = [w, b, v, spare]
    for parameter, gradient in zip(parameters, tape.gradient(loss, parameters)):
        if gradient is not None:
            parameter.assign_sub(0.1 * gradient)
"""
SPARE = ["net.spare.kernel", "net.spare.bias"]
ENC, MID = ["net.enc.kernel", "net.enc.bias"], ["net.mid.kernel", "net.mid.bias"]


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Write a script and explain it in this process: its status and output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)

    def explain(text, *words):
        (tmp_path / "train.py").write_text(text)
        status, out, err = invoked("explain", *words, "train.py")
        return status, out + err

    return explain


def lost(out):
    """The parameters that each finding lists."""
    several, one, none = (
        r"\d+ parameters get no gradient \((.*)\)$",
        r": (\S+) gets no gradient$",
        r"a tape gave None for (.*)",
    )
    found = re.findall(f"{several}|{one}|{none}", out, re.M)
    return [next(filter(None, names)).split(", ") for names in found]


def model(*lines):
    return KERAS + "".join(f"        {line}\n" for line in lines)


def test_a_seed_takes_away_the_generator_that_keras_had(script):
    """A script that runs again begins with the generator that there was, whatever it did with it."""
    import keras

    keras.random.normal((1,))  # Keras makes one
    text = model("h = tf.stop_gradient(tf.nn.relu(self.enc(x)))", "return self.head(self.mid(h) * self.scale)")
    status, out = script(text + FIT)
    assert status == 1 and "stop_gradient" in out, out


@pytest.mark.parametrize("loop", [LOOP, FIT], ids=["tape", "fit"])
def test_a_keras_model_whose_part_is_cut_off_inside_a_line(script, loop):
    text = model("h = tf.stop_gradient(tf.nn.relu(self.enc(x)))", "return self.head(self.mid(h) * self.scale)")
    status, out = script(text + loop)
    assert status == 1, out
    assert "4 of 9 parameters got no gradient" in out.splitlines()
    assert sorted(lost(out)) == sorted([SPARE, ENC])
    assert "'net.spare' (Dense) was not called" in out
    assert "train.py:16" in out
    assert "trainable = False" in out
    assert "requires_grad" not in out
    assert out.count("step 0") == (loop is LOOP)


def test_a_keras_model_whose_part_is_cut_off_through_numpy(script):
    text = model("h = self.mid(tf.nn.relu(self.enc(x)))", "h = tf.convert_to_tensor(h.numpy())", "return self.head(h)")
    status, out = script(text + LOOP)
    assert status == 1, out
    assert sorted(lost(out)) == sorted([SPARE, ["net.scale"], [*ENC, *MID]])
    assert "nothing is computed from 'net.scale': net.scale gets no gradient" in out
    assert "`h.numpy()` at train.py:17 takes '/Net:h#0' out of the framework" in out


@pytest.mark.parametrize("loop", [LOOP, FIT], ids=["tape", "fit"])
def test_a_healthy_keras_model_is_clean(script, loop):
    text = model("h = self.mid(tf.nn.relu(self.enc(x)))", "return self.head(self.spare(h) * self.scale)")
    status, out = script(text + loop)
    assert status == 0
    assert "all 9 parameters got a gradient" in out
    assert "end" not in out.splitlines()
    assert out.count("note:") == 1


def test_plain_variables(script):
    status, out = script(VARIABLES)
    assert status == 1, out
    assert out.startswith("3 of 4 parameters got no gradient\n")
    assert lost(out) == [["w", "b"], ["spare"]]  # what explains most first
    assert "`tf.round(h)` at train.py:8 has no derivative in TensorFlow, so no gradient comes back to 'h'" in out
    status, out = script(VARIABLES.replace("tf.round(h)", "h * spare"))
    assert (status, out.splitlines()[0]) == (0, "all 4 parameters got a gradient")


def test_nan_in_fit_is_explained_in_the_step_in_which_it_begins(script):
    text = model("h = self.mid(self.spare(self.enc(x))) * self.scale", "return self.head(tf.sqrt(h * 0))")
    status, out = script(text + FIT, "--nonfinite")
    assert status == 1, out
    assert "the derivative of sqrt is infinite at 0" in out
    assert "this is iteration 1 of those" in out


JAX = """\
import jax
import jax.numpy as jnp

def forward(params, x):
    h = jnp.tanh(x @ params["enc"]["w"] + params["enc"]["b"])
    k = CUT
    return k @ params["head"]

def loss_of(params, x, y):
    out = forward(params, x)
    return jnp.mean((out - y) ** 2)

DECORATED
def step(params, x, y):
    value, gradients = jax.value_and_grad(loss_of)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), value

params = {"enc": {"w": jnp.ones((3, 4)) / 3, "b": jnp.zeros(4)}, "head": jnp.ones((4, 1)), "spare": jnp.ones(4)}
for at in range(5):
    x = jax.random.normal(jax.random.key(at), (8, 3))
    params, value = step(params, x, jnp.ones((8, 1)))
    print("step", at)
"""
EQUINOX = """\
import equinox as eqx
import jax
import jax.numpy as jnp
import optax

class Net(eqx.Module):
    enc: eqx.nn.Linear
    mid: eqx.nn.Linear
    head: eqx.nn.Linear

    def __init__(self, key):
        a, b, c = jax.random.split(key, 3)
        self.enc, self.mid = eqx.nn.Linear(3, 4, key=a), eqx.nn.Linear(4, 4, key=b)
        self.head = eqx.nn.Linear(4, 1, key=c)

    def __call__(self, x):
        h = jax.nn.relu(self.enc(x))
        k = CUT
        return self.head(k)

@eqx.filter_value_and_grad
def loss_of(model, x, y):
    predicted = jax.vmap(model)(x)
    return jnp.mean((predicted - y) ** 2)

@eqx.filter_jit
def step(model, state, x, y):
    value, gradients = loss_of(model, x, y)
    updates, state = optimizer.update(gradients, state)
    return eqx.apply_updates(model, updates), state, value

model, optimizer = Net(jax.random.key(0)), optax.adam(1e-3)
state = optimizer.init(eqx.filter(model, eqx.is_array))
for at in range(3):
    model, state, value = step(model, state, jnp.ones((8, 3)), jnp.ones((8, 1)))
"""


@pytest.mark.parametrize("decorated", ["@jax.jit", ""], ids=["jit", "eager"])
def test_parameters_in_a_dict_of_jax(script, decorated):
    text = JAX.replace("DECORATED", decorated)
    status, out = script(text.replace("CUT", "jax.lax.stop_gradient(h)"))
    assert status == 1, out
    assert "3 of 4 parameters got no gradient" in out.splitlines()
    assert "nothing is computed from 'params.spare': params.spare gets no gradient" in out
    assert "no gradient comes to params.enc.b, params.enc.w, /forward:h\n" in out
    assert "train.py:6" in out
    assert "step 0" not in out
    status, out = script(text.replace("CUT", 'h * params["spare"]'))
    assert status == 0, out
    assert out.splitlines() == [
        "step 0",
        "all 4 parameters got a gradient",
        "  note: this is gradient 2 of those that the script takes; it was stopped there",
    ]


def test_an_equinox_model(script):
    status, out = script(EQUINOX.replace("CUT", "jnp.round(h)"))
    assert status == 1, out
    assert out.startswith("4 of 6 parameters got no gradient\n")
    assert lost(out) == [["model.mid.weight"], ["model.mid.bias"]] or lost(out) == [
        ["model.mid.weight", "model.mid.bias"]
    ]
    assert "no gradient comes to model.enc.weight, model.enc.bias, /__call__:h\n" in out
    status, out = script(EQUINOX.replace("CUT", "self.mid(h)"))
    assert (status, out.splitlines()[0]) == (0, "all 6 parameters got a gradient")


def test_nan_in_jax_is_explained_where_it_begins(script):
    text = JAX.replace("DECORATED", "@jax.jit")
    status, out = script(text.replace("CUT", "jnp.sqrt(h * 0)"), "--nonfinite")
    assert status == 1, out
    assert "the derivative of sqrt is infinite at 0" in out
    status, out = script(text.replace("CUT", "h * 2"), "--nonfinite")
    assert status == 0, out
    assert "no NaN or Inf comes to a gradient, nor to what it is of: 5 gradients were checked" in out
