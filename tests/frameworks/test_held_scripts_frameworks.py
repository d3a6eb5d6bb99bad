"""Scripts of TensorFlow, Keras and JAX whose answer was untrue, or told the reader to type what does not help."""

import re
import sys

import pytest

from commands import invoked


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Write a script, give it to a command in this process, and return the status and all that is printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)

    def asked(verb, text, *behind):
        (tmp_path / "train.py").write_text(text)
        status, out, err = invoked(verb, "train.py", *behind)
        return status, out + err

    return asked


MAPPED = """\
import jax, jax.numpy as jnp
from jax.sharding import AxisType, PartitionSpec as P

mesh = jax.make_mesh((1,), ("batch",), axis_types=(AxisType.Auto,))

def local_loss(w, x, y):
    h = {hidden}
    return jax.lax.pmean(((h @ w["b"] - y) ** 2).mean(), "batch")

loss = jax.shard_map(local_loss, mesh=mesh, in_specs=(P(), P("batch"), P("batch")), out_specs=P())
w = {{"a": jnp.ones((4, 3)) * 0.1, "b": jnp.ones((3, 1)) * 0.2}}
x, y = jnp.arange(32.0).reshape(8, 4) / 32, jnp.ones((8, 1))

@jax.jit
def step(w):
    value, gradients = jax.value_and_grad(loss)(w, x, y)
    return jax.tree.map(lambda a, b: a - 0.1 * b, w, gradients), value

for turn in range(3):
    w, value = step(w)
"""


def test_a_function_under_shard_map_that_trains(ask):
    status, out = ask("explain", MAPPED.format(hidden='jnp.tanh(x @ w["a"])'))
    assert status == 0, out
    assert "all 2 parameters got a gradient" in out.splitlines(), out


def test_a_function_under_shard_map_that_is_cut_inside(ask):
    status, out = ask("explain", MAPPED.format(hidden='jax.lax.stop_gradient(jnp.tanh(x @ w["a"]))'))
    assert status == 1, out
    assert "the gradient of 'w.a' is exactly 0 (train.py:7)" in out and "w.b" not in out, out


ASSIGNED = """\
import tensorflow as tf

w1, w2 = tf.Variable(tf.ones((3, 4)) * 0.1, name="w1"), tf.Variable(tf.ones((4, 1)) * 0.1, name="w2")
x, y = tf.random.stateless_normal((8, 3), seed=(0, 1)), tf.ones((8, 1))

def step(x, y):
    with tf.GradientTape() as tape:
        h = tf.cast(tf.cast(x @ w1 * 10, tf.int32), tf.float32)
        loss = tf.reduce_mean((h @ w2 - y) ** 2)
    gradients = tape.gradient(loss, [w1, w2])
    w2.assign_sub(0.01 * gradients[1])
    return loss

"""


@pytest.mark.parametrize("loop", ["for i in range(3): step(x, y)\n", "step(x, y)\nstep(x, y)\n"])
def test_an_update_by_assignment_is_no_cause(ask, loop):
    status, out = ask("explain", ASSIGNED + loop)
    assert status == 1, out
    assert "converts 'w1' to integers" in out, out
    assert not re.search(r"assign_sub.*gets? no gradient", out), out


def test_a_loop_on_one_line_of_tensorflow_is_stopped(ask):
    text = ASSIGNED.replace("tf.cast(tf.cast(x @ w1 * 10, tf.int32), tf.float32)", "x @ w1")
    status, out = ask("explain", text + "for i in range(9): step(x, y), print('turn', i)\n")
    assert status == 0, out
    assert "turn 8" not in out and "iteration 2" in out, out


STRATEGY = """\
import numpy as np
import tensorflow as tf
import keras

keras.utils.set_random_seed(0)
with tf.distribute.MirroredStrategy(["/cpu:0"]).scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
model.fit(np.random.rand(16, 4), np.random.rand(16, 1), epochs=1, verbose=0)
"""


def test_the_gradients_of_a_strategy_are_not_denied(ask):
    status, out = ask("explain", STRATEGY)
    assert "took no gradient:" not in out and "other threads" in out, out


TWO = """\
import tensorflow as tf

w, b = tf.Variable(tf.ones((3, 2))), tf.Variable(tf.zeros(2))

def main():
    spare = tf.Variable(1.0)
    for i in range(3):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.ones((4, 3)) @ w + b - 1.0) ** 2) * spare
        for v, g in zip([w, b], tape.gradient(loss, [w, b])):
            v.assign_sub(0.1 * g)

main()
"""


def test_health_counts_the_variables_that_have_an_entry(ask):
    status, out = ask("health", TWO)
    assert status == 0, out
    assert "were not checked" not in out, out


LINEN = """\
import jax, jax.numpy as jnp
from flax import nnx

class Net(nnx.Module):
    def __init__(self, rngs):
        self.head = nnx.Linear(3, 1, rngs=rngs)

    def __call__(self, x):
        return self.head(x)

net = Net(nnx.Rngs(0))
for i in range(3):
    value, gradients = nnx.value_and_grad(lambda net: (net(jnp.ones((2, 3))) ** 2).mean())(net)
"""


def test_health_of_a_script_of_jax_asks_for_no_block(ask):
    status, out = ask("health", LINEN)
    assert "with bp.probe(model" not in out, out


ROUND = """\
import jax, jax.numpy as jnp

def loss(w):
    return (w ** 2).sum()

gradient = jax.grad(loss)(jnp.ones(3))
"""


@pytest.mark.parametrize("verb, behind", [("probe", ()), ("draw", ("x.svg",)), ("derive", ("w",))])
def test_what_to_type_for_a_script_of_jax(ask, verb, behind):
    status, out = ask(verb, ROUND, *behind)
    assert status == 2, out
    assert "loss.backward()" not in out, out
    assert "backprobe explain train.py" in out.partition("next:")[2], out


TAPES = """\
import tensorflow as tf

x = tf.Variable(1.0)
with tf.GradientTape() as tape:
    y = x * x * x
print(tape.gradient(y, x))
"""


def test_what_to_type_where_a_script_has_no_partials(ask):
    status, out = ask("derive", TAPES, "x")
    assert status == 2, out
    assert "--partials true" not in out, out


LAYER = """\
import numpy as np
import tensorflow as tf
import keras

class Block(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(8)

    def call(self, x):
        h = self.dense(x)
        return tf.stop_gradient(tf.nn.relu(h))

model = keras.Sequential([keras.Input((4,)), Block(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(np.ones((8, 4)), np.ones((8, 1)), epochs=2, verbose=0)
"""


def test_a_stopped_gradient_in_a_layer_has_a_remedy(ask):
    status, out = ask("explain", LAYER)
    assert status == 1, out
    assert "next:" in out and "stop_gradient" in out.partition("next:")[2], out


KINKED = """\
import jax, jax.numpy as jnp

def net(p, t):
    h = jax.nn.relu(p["w1"] * t + p["b1"])
    return jnp.dot(h, p["w2"])

def loss(p, ts):
    bent = jax.vmap(lambda t: jax.grad(jax.grad(net, 1), 1)(p, t))(ts)
    return jnp.mean((bent + 1.0) ** 2)

p = {"w1": jnp.arange(1.0, 9.0), "b1": jnp.ones(8) * 0.1, "w2": jnp.arange(1.0, 9.0)}
for i in range(3):
    value, gradients = jax.value_and_grad(loss)(p, jnp.linspace(0, 1, 8))
"""


def test_a_second_derivative_that_is_zero_is_not_blamed_on_a_condition(ask):
    status, out = ask("explain", KINKED)
    assert status == 1, out
    assert "only an index or a shape" not in out, out


def test_a_function_that_runs_again_gets_what_it_got_at_first():
    import jax.numpy as jnp

    import backprobe as bp

    def program(x):
        h = x.reshape(1) * 2
        return (h * x.astype(jnp.float32)).sum()

    assert "second time" not in str(bp.explain(bp.probe(program, backend="jax")(2.5)))


MODEL = """\
import keras

model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
"""


def test_an_argument_that_a_keras_model_does_not_take(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    tmp_path.joinpath("net.py").write_text(MODEL)
    status, out, err = invoked("probe", str(tmp_path / "net.py:model"), "x=ones(2,4)")
    assert status == 2 and "inputs" in out + err, out + err
