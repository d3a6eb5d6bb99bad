"""Frameworks that ``PYTHONPATH`` brings in from a folder of any name are not the program's own code."""

from textwrap import dedent

import pytest

from overlays import linked, run
from sampled import sampled

PROGRAMS = {
    "jax": """
        import jax, jax.numpy as jnp, backprobe as bp

        def f(x):
            y = jnp.sin(x)
            z = jax.nn.softplus(y)
            return z.sum()

        print(list(bp.probe(f)(jnp.ones(3))), jax.__file__)
    """,
    "equinox": """
        import equinox, jax, jax.numpy as jnp, backprobe as bp

        layer = equinox.nn.Linear(2, 2, key=jax.random.key(0))

        def f(x):
            y = layer(x)
            z = jax.vmap(jnp.tanh)(y)
            return z.sum()

        print(list(bp.probe(f, "**")(jnp.ones(2))), equinox.__file__)
    """,
    "tensorflow": """
        import tensorflow as tf, backprobe as bp

        def f(x):
            y = tf.sin(x)
            z = tf.nn.softplus(y)
            return tf.reduce_sum(z)

        print(list(bp.probe(f)(tf.ones(3))), tf.__file__)
    """,
    "keras": """
        import keras, tensorflow as tf, backprobe as bp

        layer = keras.layers.Dense(2)

        def f(x):
            y = layer(x)
            z = keras.ops.tanh(y)
            return tf.reduce_sum(z)

        print([name for name in bp.probe(f, "**")(tf.ones((1, 3))) if "kernel" not in name], keras.__file__)
    """,
}


@pytest.fixture(scope="module")
def overlay(tmp_path_factory):
    return linked(tmp_path_factory.mktemp("overlay"))


@pytest.mark.parametrize("library", sampled(PROGRAMS, "keras"))
def test_a_function_has_the_programs_entries_alone(overlay, tmp_path, library):
    file = tmp_path / "train.py"
    file.write_text(dedent(PROGRAMS[library]))

    found = run(file, overlay, warnings="ignore")

    assert f"['x', 'y', 'z', 'return'] {overlay}/{library}/" in found, found


def test_a_script_is_explained(overlay, tmp_path):
    file = tmp_path / "train.py"
    file.write_text(
        dedent("""
        import jax, jax.numpy as jnp

        def loss(w):
            y = jax.lax.stop_gradient(w) * 2
            return y.sum()

        print(jax.grad(loss)(jnp.ones(2)))
    """)
    )

    found = run(file, overlay, "-m", "backprobe", "explain", warnings="ignore")

    assert "`jax.lax.stop_gradient(w)`" in found, found
