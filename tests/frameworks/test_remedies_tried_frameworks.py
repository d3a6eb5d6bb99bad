"""Remedies are tried in TensorFlow and JAX too, and what was compiled or traced for the user is as it was."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy
import pytest
import tensorflow as tf

import backprobe as bp

HEAD = {
    "tensorflow": "import numpy as np\nimport tensorflow as tf\n",
    "jax": "import jax\nimport jax.numpy as jnp\nimport numpy as np\n",
}
NUMBERS = [1.0, 2.0], [3.0, 4.0]
CURED = {
    "tensorflow": {
        "stop_gradient": ("d = tf.stop_gradient(x * w)", "d = (x * w)"),
        "numpy": ("d = np.exp((x * w).numpy())", "d = tf.math.exp((x * w))"),
        "a number": ("d = float(tf.reduce_sum(x * w)) * w", "d = tf.reduce_sum(x * w) * w"),
        "a constant": ("d = tf.constant([x[0].numpy(), x[1].numpy()])", "d = tf.stack([x[0], x[1]])"),
        "a Variable": ("d = tf.Variable(x * w)", "d = (x * w)"),
    },
    "jax": {
        "stop_gradient": ("d = jax.lax.stop_gradient(x * w)", "d = (x * w)"),
        "numpy": ("d = np.exp(np.asarray(jax.lax.stop_gradient(x * w)))", "d = jnp.exp((x * w))"),
    },
}
SUMMED = {"tensorflow": "tf.reduce_sum(d * w)", "jax": "(d * w).sum()"}
MADE = {"tensorflow": tf.constant, "jax": jnp.array}


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def make(framework, text):
        Path("tried.py").write_text(HEAD[framework] + text)
        return __import__("tried")

    yield make
    sys.modules.pop("tried", None)


def given(framework):
    return [MADE[framework](numbers) for numbers in NUMBERS]


@pytest.mark.parametrize(("framework", "cause"), [(one, cause) for one in CURED for cause in CURED[one]])
def test_a_remedy_says_what_it_cured(program, framework, cause):
    line, edited = CURED[framework][cause]
    f = program(framework, f"def f(x, w):\n    {line}\n    return {SUMMED[framework]}\n").f
    before = f(*given(framework))
    (finding,) = bp.explain(bp.probe(f)(*given(framework)))
    number = HEAD[framework].count("\n") + 2
    assert finding.tried == (f"`{edited}` at tried.py:{number}: the gradient of 'x' arrives; the output is the same",)
    assert numpy.array_equal(before, f(*given(framework)))


@pytest.mark.parametrize("decorator", ["jax.jit", "jax.checkpoint", "jax.custom_jvp"])
@pytest.mark.parametrize("first", [True, False])
def test_what_jax_has_traced_is_of_the_program_as_it_is(program, decorator, first):
    text = (
        f"@{decorator}\ndef inner(u):\n    return jax.lax.stop_gradient(u) * 2\n\n\n"
        + "inner.defjvp(lambda u, t: (inner(*u), t[0] * 2))\n" * (decorator == "jax.custom_jvp")
        + "def f(x, w):\n    return (inner(x * w) * w).sum() + jax.lax.stop_gradient(x).sum()\n"
    )
    f = program("jax", text).f
    x, w = given("jax")
    wanted = numpy.array(jax.grad(f)(x, w)) if first else None
    bp.explain(bp.probe(f)(x, w))
    after = numpy.array(jax.grad(f)(x, w))
    jax.clear_caches()
    anew = numpy.array(jax.grad(f)(x, w))
    assert numpy.array_equal(after, anew)
    assert wanted is None or numpy.array_equal(wanted, anew)


def test_what_jax_has_traced_inside_a_loop(program):
    text = (
        "def step(h, _):\n    return h * jax.lax.stop_gradient(h), None\n\n\n"
        "def f(x, w):\n    d, _ = jax.lax.scan(step, jax.lax.stop_gradient(x), None, length=2)\n"
        "    return (d * w).sum()\n"
    )
    f = program("jax", text).f
    x, w = given("jax")
    bp.explain(bp.probe(f)(x, w), "x")
    after = numpy.array(jax.grad(f)(x, w))
    jax.clear_caches()
    assert numpy.array_equal(after, numpy.array(jax.grad(f)(x, w)))


def test_a_tf_function_that_was_traced_is_as_it_was(program):
    module = program(
        "tensorflow",
        "@tf.function\ndef inner(u):\n    return tf.stop_gradient(u) * 2\n\n\n"
        "def f(x, w):\n    return tf.reduce_sum(inner(x * w) * w)\n",
    )
    x, w = given("tensorflow")
    (finding,) = bp.explain(bp.probe(module.f)(x, w))
    assert finding.tried[0].startswith("`return u * 2` at tried.py:5: the gradient of 'x' arrives")
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = module.f(x, w)
    assert tape.gradient(y, x) is None
