"""Births in calls of TensorFlow and JAX that NumPy does not know, in parts that read alike, and in updates of items."""

import jax
import jax.numpy as jnp
import numpy
import pytest
import tensorflow as tf

import backprobe as bp
from backprobe.backends.discover import load_arrays, load_backend


def of_jax(program):
    return bp.explain(bp.probe(program, nonfinite=True)(jnp.array([0.0, 2.0])))


def of_a_block(program):
    x = tf.Variable([0.0, 2.0])
    with bp.probe(nonfinite=True) as rec:
        with tf.GradientTape() as tape:
            loss = program(x)
        tape.gradient(loss, x)
    return bp.explain(rec)


def labelled(x):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(tf.constant(0), x * numpy.inf)


def without_nan(x):
    return tf.reduce_sum(tf.math.multiply_no_nan(x, 1.0 / x))


def igamma(x):
    return tf.reduce_sum(tf.math.igamma(x + 1.0, tf.math.log(x)))


@pytest.mark.parametrize(
    ("program", "part", "why"),
    [(labelled, "x * numpy.inf", "zero_inf"), (without_nan, "1.0 / x", "by_zero"), (igamma, "tf.math.log(x)", "at")],
)
def test_a_part_of_a_call_is_named_in_a_block(program, part, why):
    birth = of_a_block(program).of_kind("born")[0]
    assert birth.fields["why"] == why
    assert any(fact.startswith(f"`{part}` gives") for fact in birth.facts)


def lgamma(x):
    return jnp.sum(jax.scipy.special.gammaln(x))


def logit(x):
    return jnp.sum(jax.scipy.special.logit(x / 2))


def updated(x):
    return jnp.sum(x.at[0].divide(x[0]))


def put(x):
    y = x.at[0].set(jnp.log(x[0]))
    return jnp.sum(y)


def increased(x):
    y = x.at[0].add(1 / x[0])
    return jnp.sum(y)


@pytest.mark.parametrize(
    ("program", "why"),
    [(lgamma, "gammaln(0)"), (logit, "logit(0)"), (updated, "0/0"), (put, "log(0)"), (increased, "division by zero")],
)
def test_the_reason_in_jax(program, why):
    birth = of_jax(program).of_kind("born")[0]
    assert birth.headline.endswith(why)
    assert "not recorded" not in birth.headline


def test_an_update_of_an_item_is_not_replaced_by_the_number():
    (birth,) = of_jax(updated).of_kind("born")
    assert birth.remedy.startswith("`x.at[0].divide(") and "finite" in birth.tried[0]


def twice_the_same(x):
    return jnp.sum(jnp.arctan2(x - x, x - x))


def twice_the_same_of_tensorflow(x):
    return tf.reduce_sum(tf.math.atan2(x - x, x - x))


def test_parts_that_read_alike_are_one_birth():
    (birth,) = of_jax(twice_the_same).of_kind("born_backward")
    assert birth.fields["why"] == "pole_undefined"
    report = bp.explain(bp.probe(twice_the_same_of_tensorflow, nonfinite=True)(tf.constant([0.0, 2.0])))
    assert [one.fields["why"] for one in report.of_kind("born_backward")] == ["pole_undefined"]


@pytest.mark.parametrize("framework", ["tensorflow", "jax"])
def test_only_known_functions_are_evaluated(framework):
    arrays = load_arrays(framework)
    known = "lgamma" if framework == "tensorflow" else "gammaln"
    assert abs(arrays.evaluate(known, [numpy.ones(1)], {})) < 1e-6
    for name in ("load", "save", "save_model", "function", "jit", "print", "py_function"):
        assert arrays.evaluate(name, [numpy.ones(1)], {}) is None


def test_a_graph_that_is_being_built_stays_as_it_is():
    graph = tf.Graph()
    with graph.as_default():
        load_arrays("tensorflow").evaluate("lgamma", [numpy.ones(1)], {})
    assert not graph.get_operations()


# a second run, in which operations are heard


@jax.custom_jvp
def shares(x):
    total = x.sum()
    return jnp.sin(x) / total


shares.defjvp(lambda given, tangents: (shares(*given), shares(*given) * tangents[0]))


@tf.custom_gradient
def shares_of_tensorflow(x):
    total = tf.reduce_sum(x)
    shared = tf.sin(x) / total
    return shared, lambda gradient: gradient * shared


def of_custom_jvp(x):
    p = shares(x)
    return p.sum()


def of_custom_gradient(x):
    p = shares_of_tensorflow(x)
    return tf.reduce_sum(p)


@pytest.mark.parametrize(
    ("program", "x", "said"),
    [
        (of_custom_jvp, jnp.array([1.0, -1.0]), "div at [0]: 0.841471 / 0.0, in `return jnp.sin(x) / total`"),
        (
            of_custom_gradient,
            tf.constant([1.0, -1.0]),
            "RealDiv at [0]: 0.841471 / 0.0, in `shared = tf.sin(x) / total`",
        ),
    ],
)
def test_a_birth_in_a_function_with_a_rule_of_its_own_is_heard(program, x, said):
    birth = bp.explain(bp.probe(program, nonfinite=True)(x)).findings[0]
    assert birth.facts[0].startswith(f"run again with its operations heard, {said} (test_call_births.py:")


@pytest.mark.parametrize("framework", ["tensorflow", "jax"])
def test_healthy_operations_and_those_of_what_is_bad_already_are_not_heard(framework):
    heard = []
    lib = tf if framework == "tensorflow" else jnp
    with load_backend(framework).hear_births(heard.append):
        y = lib.exp(lib.sin(lib.ones(3)) / lib.zeros(3))
        y = lib.where(lib.ones(3) > 0, y - y, y)
    kinds = [one.operation.lower().removeprefix("real") for one in heard]
    assert kinds == ["div", "sub"]
