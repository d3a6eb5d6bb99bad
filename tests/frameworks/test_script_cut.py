"""``backprobe explain train.py`` where all gradients of a program of TensorFlow or JAX are cut off: one true cause."""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import backprobe as bp
from commands import invoked, unplaced

TF = """\
import numpy as np
import tensorflow as tf
import keras

optimizer = keras.optimizers.SGD(0.1)
w, kept, x = tf.Variable([1.0, 2.0]), tf.Variable([0.0, 0.0]), tf.constant([3.0, 4.0])
for step in range(2):
    with tf.GradientTape() as tape:
        {}
    gradients = tape.gradient(loss, [w])
    optimizer.apply_gradients(zip(gradients, [w]))
"""
CUT_IN_TENSORFLOW = {
    "a comparison": (
        "y = w * x; loss = tf.reduce_mean(tf.cast(tf.equal(y, x), tf.float32))",
        "the operation Equal is true or false",
    ),
    "two at once": ("loss = tf.reduce_sum(tf.floor(w * x) + tf.math.ceil(w))", "the operation Ceil has no derivative"),
    "NumPy": ("y = w * x; loss = tf.constant(np.mean(np.square(y)))", "`np.square(y)` takes 'y' out of the framework"),
    "a list of numbers": (
        "parts = [float(v) for v in w * 2]; loss = tf.reduce_sum(tf.constant(parts))",
        "turns 'w' into a list of Python numbers",
    ),
    "an assignment in a loop": (
        "for i in range(2):\n            kept.assign_add(w * x)\n        loss = tf.reduce_sum(kept * 1.0)",
        "`kept.assign_add(w * x)` writes the values of 'w' into a Variable",
    ),
}
FIT = """\
import keras, numpy as np, tensorflow as tf

def wrong(y, predicted):
    return 1.0 - tf.cast(tf.equal(tf.cast(y, tf.int64), tf.argmax(predicted, -1)), tf.float32)

model = keras.Sequential([keras.layers.Dense(3)])
model.compile(optimizer="sgd", loss=wrong)
model.fit(np.ones((8, 4), "float32"), np.array([0, 1] * 4), verbose=0)
"""
NOTHING_ASKED = """\
import keras, tensorflow as tf

model = keras.Sequential([keras.layers.Dense(1)])
FROZEN
x = tf.ones((4, 3))
variables = model.trainable_variables
with tf.GradientTape() as tape:
    loss = tf.reduce_mean(model(x) ** 2)
print("gave", tape.gradient(loss, variables))
"""
JAX = """\
import jax, jax.numpy as jnp

def loss_of(parameters, x):
    h = x @ parameters["w"] + parameters["b"]
    {}

parameters = {{"w": jnp.ones((3, 2)), "b": jnp.array([0.0, 1.0])}}
for step in range(3):
    gradients = jax.grad(loss_of)(parameters, jnp.ones((4, 3)))
"""
CUT_IN_JAX = {
    "argmax": ("k = jnp.argmax(h, -1)\n    return jnp.mean(k == 1)", "`jnp.argmax(h, -1)` gives positions"),
    "a comparison": ("return jnp.mean((h > 0.5) * 1.0)", "`h > 0.5` is true or false"),
    "round": ("k = jnp.round(h)\n    return jnp.sum(k)", "the derivative of 'k' with respect to 'h' that backward"),
    "stop_gradient": (
        "k = jax.lax.stop_gradient(h)\n    return jnp.sum(k**2)",
        "`jax.lax.stop_gradient(h)` cuts 'k' off from 'h'",
    ),
    "a drawn index": (
        "k = jax.random.categorical(jax.random.key(0), h)\n    return jnp.sum(k * 1.0)",
        "draws whole numbers",
    ),
}


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Explain a script in this process: its output and its exit status."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)

    def explain(text, status):
        (tmp_path / "train.py").write_text(text)
        found, out, err = invoked("explain", "train.py")
        assert found == status, out + err
        return out

    return explain


@pytest.mark.parametrize("case", CUT_IN_TENSORFLOW)
def test_the_report_on_a_tape_that_gave_none_names_the_cut_alone(script, case):
    line, words = CUT_IN_TENSORFLOW[case]
    out = script(TF.format(line), 3)
    assert out.startswith("1 of 1 parameter got no gradient\n")
    assert words in unplaced(out)
    assert "nothing that was recorded leads from" not in out  # what leads on is cut off: that is another thing
    assert "was not differentiated" not in out
    assert [out.count(f"  {number}. ") for number in (1, 2, 3)] == [1, 1, 0], out  # the error, and the cause


def test_numpy_between_a_variable_and_a_loss_is_one_finding(script):
    text = TF.format("loss = tf.reduce_sum(kept * np.mean(w))").replace("[w])", "[w, kept])")
    for before, status in (
        ("", 3),
        ("import warnings; warnings.simplefilter('ignore')\n", 1),
    ):  # of Keras: it misses one
        out = script(before + text, status)
        assert out.startswith("1 of 2 parameters got no gradient\n")
        assert "`np.mean(w)` takes 'w' out of the framework" in unplaced(out)
        assert "no path leads from" not in out


def test_a_loss_of_fit_that_cuts_everything_off(script):
    out = script(FIT, 3)
    assert "2 of 2 parameters got no gradient" in out
    assert "the tape gave None for every Variable that it was asked for" in out
    assert "the operation ArgMax gives positions" in out
    assert [one for one in ("no backward() ran", "took no gradient", "was not differentiated") if one in out] == []


@pytest.mark.parametrize("frozen", ["", "model.build((4, 3)); model.trainable = False"])
def test_a_tape_that_is_asked_for_nothing(script, frozen):
    out = script(NOTHING_ASKED.replace("FROZEN", frozen), 1)
    assert "gave []" in out
    assert "asks a tape for the gradients of nothing: the list that it is given is empty" in out
    assert "trainable_variables is empty where trainable is False, and before a model is built" in out


@pytest.mark.parametrize("case", CUT_IN_JAX)
def test_a_function_of_jax_that_cuts_everything_off(script, case):
    lines, words = CUT_IN_JAX[case]
    out = script(JAX.format(lines), 1)
    assert out.startswith("2 of 2 parameters got no gradient\n")
    assert words in unplaced(out)
    assert "no gradient comes to parameters.b, parameters.w, h\n" in out
    assert out.count("next:") == 1, out


def test_parameters_that_nothing_is_computed_from_are_one_finding(script):
    text = JAX.format("return jnp.sum(h**2)").replace('"b": ', '"spare": {"u": jnp.ones(3), "v": jnp.ones(2)}, "b": ')
    out = script(text, 1)
    consequence = "2 parameters get no gradient (parameters.spare.u, parameters.spare.v)\n"
    assert f"nothing is computed from these parameters: {consequence}" in out


def test_an_argument_may_hold_functions_of_jax():
    mlp = eqx.nn.MLP(3, 1, 4, 1, activation=jax.nn.gelu, key=jax.random.key(0))

    def loss_of(model, act, x):
        out = act(jax.vmap(model)(x))
        return jnp.sum(out)

    rec = bp.probe(loss_of)(mlp, jnp.tanh, jnp.ones((4, 3)))
    assert rec["model.layers.0.weight"].grad.shape == (4, 3)
    with pytest.raises(bp.NoSource, match="a function of JAX itself"):
        bp.probe(jnp.tanh)(jnp.ones(()))
