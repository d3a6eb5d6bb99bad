"""What bp.check says of TensorFlow's and JAX's calls is true: precision, kinks, and rules of the caller."""

import functools

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
import tensorflow as tf
from jax.custom_derivatives import linear_call

import backprobe as bp

check = functools.partial(bp.check, backend="tensorflow")
MATRIX = jnp.array([[2.0, 1.0], [0.0, 3.0]])
SYMMETRIC = jnp.array([[2.0, 1.0], [1.0, 3.0]])


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# layers of Keras compute in the precision that they have


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("build", "shape"),
    [
        (lambda: keras.layers.Dense(1), (2, 4)),
        (lambda: keras.layers.LayerNormalization(), (4, 16)),
        (lambda: keras.layers.EinsumDense("ab,bc->ac", output_shape=5), (6, 4)),
        (lambda: keras.layers.Dense(8, activation="gelu"), (32, 16)),
    ],
)
def test_a_layer_is_judged_in_the_precision_that_it_computes_in(build, shape, seed):
    keras.utils.set_random_seed(seed)
    layer, x = build(), tf.constant(normal(*shape, seed=seed))
    layer(x)
    report = check(lambda x: tf.reduce_sum(layer(x) ** 2))(x)
    assert report.ok and report.complete and report.notes == ()


def test_a_cast_inside_a_function_of_tensorflow_is_seen():
    def rows(x):
        return tf.map_fn(lambda row: tf.cast(tf.tanh(tf.cast(row, tf.float32)), row.dtype), x)

    report = check(lambda x: tf.reduce_sum(rows(x)))(tf.constant(normal(3, 4)))
    assert report.ok and "not its derivative" not in str(report)


def test_a_wrong_gradient_in_a_layer_is_found_in_single_precision():
    @tf.custom_gradient
    def double(x):
        return x * 2, lambda g: g * 2.1

    class Layer(keras.layers.Layer):
        def call(self, x):
            return double(x)

    layer = keras.Sequential([Layer(), keras.layers.Dense(2)])
    layer(tf.constant(normal(3, 4)))
    (finding,) = check(lambda x: layer(x))(tf.constant(normal(3, 4))).findings
    assert finding.error == pytest.approx(0.05, rel=0.1)


# sums of terms that cancel


@pytest.mark.parametrize("seed", range(3))
def test_a_product_of_matrices_has_no_kink(seed):
    x, w = normal(64, 256, seed=seed), normal(256, 512, seed=seed + 10)
    for report in (
        check(lambda x, w: x @ w)(tf.constant(x), tf.constant(w)),
        bp.check(lambda x, w: x @ w)(jnp.array(x), jnp.array(w)),
    ):
        assert report.ok and report.complete and report.notes == ()


# outputs that do not move


@pytest.mark.parametrize("x", [[3.0, -1.0], [3e7, -1.0], [3e7, 0.5]])
def test_an_output_that_does_not_move_is_compared(x):
    for report in (
        check(lambda x: tf.clip_by_value(x, 0.0, 1e6))(tf.constant(x)),
        bp.check(lambda x: jnp.clip(x, 0.0, 1e6))(jnp.array(x)),
    ):
        assert report.ok and report.complete and "so large" not in str(report)


# rules that the caller has written


def scaled(factor):
    return lambda x: linear_call(lambda r, v: v * 3, lambda r, c: c * factor, (), x * 2)


def solved(transposed):
    def f(b):
        return jax.lax.custom_linear_solve(
            lambda x: MATRIX @ x,
            b,
            lambda _, b: jnp.linalg.solve(MATRIX, b),
            lambda _, b: jnp.linalg.solve(transposed, b),
        )

    return f


def looked_up(sign):
    def f(x):
        return linear_call(
            lambda ids, v: v[ids], lambda ids, c: sign * jnp.zeros(4).at[ids].add(c), jnp.array([0, 2, 2]), x
        )

    return f


@pytest.mark.parametrize(
    ("program", "x"),
    [
        (scaled(100.0), 1.0),
        (scaled(3.1), 1.0),
        (solved(MATRIX), [1.0, 2.0]),
        (looked_up(-1.0), [1.0, 2.0, 3.0, 4.0]),
        (lambda x: jax.jit(scaled(-3.0))(x).sum(), [1.0, 2.0]),
        (lambda x: jax.lax.scan(lambda c, row: (c, scaled(5.0)(row)), 0.0, x)[1], [1.0, 2.0]),
    ],
)
def test_a_wrong_transpose_is_found(program, x):
    report = bp.check(program)(jnp.array(x))
    assert len(report.findings) == 1 and report.ok is False
    assert "written by hand" not in str(report)


@pytest.mark.parametrize(
    ("program", "x"),
    [
        (scaled(3.0), 1.0),
        (solved(MATRIX.T), [1.0, 2.0]),
        (looked_up(1.0), [1.0, 2.0, 3.0, 4.0]),
        (lambda b: jax.scipy.sparse.linalg.cg(lambda x: SYMMETRIC @ x, b)[0], [1.0, 2.0]),
        (lambda b: jnp.linalg.solve(MATRIX, b), [1.0, 2.0]),
    ],
)
def test_a_right_transpose_is_right(program, x):
    bp.check(program)(jnp.array(x)).assert_ok(strict=True)


def test_where_a_rule_may_be_wrong_it_is_not_said_that_nothing_was_written_by_hand():
    def rows(matrix, b):
        return jax.lax.custom_linear_solve(
            lambda x: 2 * matrix @ x,
            b,
            lambda _, b: jnp.linalg.solve(matrix, b),
            lambda _, b: jnp.linalg.solve(matrix.T, b),
        )

    report = bp.check(lambda m, b: jax.vmap(rows)(m, b))(jnp.stack([MATRIX, MATRIX]), jnp.ones((2, 2)))
    assert report.ok and not report.complete
    assert "nothing in it was written by hand" not in str(report)


def test_what_is_detached_is_so_by_definition():
    report = bp.check(lambda x: jax.vmap(lambda a: a * jax.lax.stop_gradient(a))(x))(jnp.ones(2))
    assert "nothing in it was written by hand" in str(report)


# calls by themselves, and the whole


def test_only_calls_are_said_to_be_right():
    of_tensorflow = check(lambda x: tf.where(x == 1.0, x, 1 / x))(tf.constant(1.0))
    of_jax = bp.check(lambda x: jnp.where(x == 1.0, x, 1 / x))(jnp.array(1.0))
    for report in (of_tensorflow, of_jax):
        assert report.heading.startswith("<lambda>: taken by itself, each call ")
