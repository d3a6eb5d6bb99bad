"""``backprobe memory`` of scripts: leaks in TensorFlow by their line, healthy ones, and JAX, which has no steps."""

import re
import subprocess
import sys
import textwrap

import pytest

from commands import in_folder, invoked

HEAD = """\
import tensorflow as tf
w = tf.Variable(tf.ones((4, 3)))
optimizer = tf.keras.optimizers.SGD(0.1)
"""
LOOP = """\
for step in range(6):
    x = tf.random.normal((5, 4))
    with tf.GradientTape({}) as tape:
        h = tf.tanh(x @ w)
        loss = tf.reduce_mean(h ** 2)
    gradient = tape.gradient(loss, w)
    optimizer.apply_gradients([(gradient, w)])
    {}
"""


def in_function(loop):
    return "def train():\n    kept = []\n" + textwrap.indent(loop, "    ") + "train()\n"


LEAKS = {
    "tapes": "kept = []\n" + LOOP.format("persistent=True", "kept.append(tape)  # <- here"),
    "tapes, in a function": in_function(LOOP.format("persistent=True", "kept.append(tape)  # <- here")),
    "outputs": "kept = []\n" + LOOP.format("", "kept.append(h)  # <- here"),
    "gradients by step": "kept = {}\n" + LOOP.format("", "kept[step] = gradient  # <- here"),
    "weights": "class Kept: all = []\n" + LOOP.format("", "Kept.all.append(tf.identity(w))  # <- here"),
}
HEALTHY = {
    "nothing is kept": LOOP.format("", "pass"),
    "numbers": "kept = []\n" + LOOP.format("", "kept.append(float(loss))"),
    "the last tape": "kept = []\n" + LOOP.format("persistent=True", "kept = [tape]"),
    "an average": "mean = tf.Variable(w)\n" + LOOP.format("", "mean.assign(0.9 * mean + 0.1 * w)"),
}
SETTINGS = """\
tf.config.threading.set_intra_op_parallelism_threads(1)
two = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], two)
assert len(tf.config.list_logical_devices("CPU")) == 2
"""


def ran(text, tmp_path, monkeypatch, *words):
    with in_folder(tmp_path, monkeypatch, {"train.py": text}):
        return invoked("memory", *words, "train.py")


@pytest.mark.parametrize("case", LEAKS)
def test_a_leak_is_named_with_its_line(case, tmp_path, monkeypatch):
    text = HEAD + LEAKS[case]
    line = next(at for at, one in enumerate(text.splitlines(), 1) if one.endswith("# <- here"))
    code, out, err = ran(text, tmp_path, monkeypatch)
    assert code == 1 and f"train.py:{line}" in out and re.search("earlier steps", out), out + err


@pytest.mark.parametrize("case", HEALTHY)
def test_a_healthy_script_is_silent(case, tmp_path, monkeypatch):
    code, out, err = ran(HEAD + HEALTHY[case], tmp_path, monkeypatch)
    assert code == 0 and "; 6 steps" in out, out + err


def test_settings_before_the_first_operation_are_the_script_s_own(tmp_path, monkeypatch):
    text = "import tensorflow as tf\n" + SETTINGS + HEAD + LOOP.format("", "pass")
    (tmp_path / "train.py").write_text(text)
    words = [sys.executable, "-m", "backprobe", "memory", "train.py"]  # nothing has run in that process
    result = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0 and "; 6 steps" in result.stdout, result.stdout + result.stderr


JAX = """\
import jax, jax.numpy as jnp
w, kept = jnp.ones((4, 3)), []
for step in range(6):
    loss, gradient = jax.value_and_grad(lambda w: (jnp.tanh(jnp.ones((5, 4)) @ w) ** 2).mean())(w)
    w = w - 0.1 * gradient
    kept.append(gradient)
"""


def test_a_script_of_jax_has_no_steps_and_is_not_run(tmp_path, monkeypatch):
    code, out, err = ran(JAX + "print('it ran')\n", tmp_path, monkeypatch)
    assert code == 2 and "it ran" not in out and "bytes" not in out
    assert "report.step()" in err and "JAX" in err


@pytest.mark.parametrize("text", ["import torch\n", "import tensorflow as tf\n", "import keras\n"])
def test_a_script_without_a_step_is_not_called_free_of_leaks(text, tmp_path, monkeypatch):
    code, out, err = ran(text + "print('it ran')\n", tmp_path, monkeypatch)
    assert code == 2 and "it ran" in out and "report.step()" in err, out + err
