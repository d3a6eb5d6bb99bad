"""Births of NaN and Inf, and the health of a recording, in every framework."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf

import backprobe as bp
from asked import round_trip

supports = pytest.mark.supports
SECTION = "NaN, Inf and health"


def explained(framework, program, *args, **options):
    tensors = [framework.tensor(arg) for arg in args]
    return bp.explain(bp.probe(program(framework.ops), nonfinite=True, **options)(*tensors))


def lines(report, kind):
    return [finding.source.text.strip() for finding in report.of_kind(kind)]


def zero_over_zero(ops):
    def f(x):
        n = x * 2
        y = n / x
        return ops.sum(y)

    return f


@supports("NaN and Inf born in the forward pass: line, name and reason", SECTION)
def test_forward(framework):
    report = explained(framework, zero_over_zero, [0.0, 1.0])
    assert [finding.headline for finding in report.of_kind("born")] == ["NaN is born at 'y': 0/0"]
    assert lines(report, "born") == ["y = n / x"]


def overflow(ops):
    exp = ops.exp

    def f(x):
        y = exp(x * 100) * 0
        return ops.sum(y)

    return f


@supports("which operation of a line", SECTION)
def test_an_operation_without_a_name(framework):
    report = explained(framework, overflow, [1.0, 0.0])
    assert [finding.headline for finding in report.of_kind("born")] == [
        "Inf is born at 'exp()': overflow: float32 ends at 3.40e38",
        "NaN is born of Inf at 'y': 0 · Inf",
    ]


def masked(ops):
    where = ops.where

    def f(x):
        y = where(x > 1, 1 / x, x)
        return ops.sum(y)

    return f


@supports("born in the backward pass alone, as in the branch that `where` does not select", SECTION)
def test_backward(framework):
    report = explained(framework, masked, [0.0, 4.0])
    (found,) = report.of_kind("born_backward")
    assert found.headline.startswith("NaN is born in the backward of 'div()': 0 · Inf: a zero gradient")
    assert found.source.text.strip() == "y = where(x > 1, 1 / x, x)"
    assert any("the branch 1 / x of where" in fact for fact in found.facts)


@supports("NaN that comes in with an argument", SECTION)
def test_came_in(framework):
    report = explained(framework, zero_over_zero, [float("nan"), 1.0])
    assert [finding.name for finding in report.of_kind("came_in", "born")] == ["x"]


@supports("a program without any", SECTION)
def test_nothing(framework):
    assert explained(framework, zero_over_zero, [2.0, 1.0]).ok


@supports("`entry.finiteness`: how many numbers are NaN and Inf, saved with a recording", SECTION)
def test_counts(framework, tmp_path):
    rec = bp.probe(zero_over_zero(framework.ops), nonfinite=True)(framework.tensor([0.0, 1.0]))
    assert rec["y"].finiteness.value == bp.Nonfinite(1, 0, 2)
    assert rec["x"].finiteness.grad.nan == 1
    assert str(bp.explain(round_trip(rec, tmp_path, to="numpy"))) == str(bp.explain(rec, experiments=False))


def dead(ops):
    relu = ops.relu

    def f(x):
        h = relu(x - 10)
        return ops.sum(h)

    return f


@supports("`bp.health(rec)`", SECTION)
def test_health(framework):
    x = framework.tensor(np.linspace(-1, 1, 64).reshape(16, 4))
    assert {finding.kind for finding in bp.health(bp.probe(dead(framework.ops))(x)).findings} == {
        "dead",
        "zero_gradient",
    }
    assert bp.health(bp.probe(dead(framework.ops))(x + 10.5)).ok


@pytest.mark.supports(
    "`nonfinite=True` inside of what is traced", SECTION, on="jax", answer="`Unsupported`, says what to return"
)
def test_what_is_only_traced_has_no_numbers():
    def probed(x):
        return bp.probe(lambda x: jnp.sum(x / x), nonfinite=True)(x)["x"].grad

    with pytest.raises(bp.Unsupported, match="a recording made inside jit has no numbers yet"):
        jax.jit(probed)(jnp.zeros(2))


def logarithm(x):
    y = jnp.log(x)
    return y.sum()


@pytest.mark.supports("births inside of `jit`", SECTION, on="jax")
def test_inside_of_jit():
    report = bp.explain(bp.probe(jax.jit(logarithm), nonfinite=True)(jnp.array([0.0, 1.0])))
    assert [finding.headline for finding in report.of_kind("born")] == ["Inf is born at 'y': log(0)"]


@pytest.mark.supports("births in a graph and its session", SECTION, on="tensorflow")
def test_in_a_graph():
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, (2,), name="x")
        y = tf.math.log(x, name="y")
        output = tf.reduce_sum(y, name="output")
    with tf.compat.v1.Session(graph=graph) as session:
        report = bp.explain(bp.probe(output, session=session, nonfinite=True)({x: [0.0, 1.0]}))
    (born,) = report.of_kind("born")
    assert (born.headline, born.source.text.strip()) == ("Inf is born at 'y': log(0)", 'y = tf.math.log(x, name="y")')


@pytest.mark.supports("births in a block", SECTION, on="tensorflow")
def test_in_a_block():
    v = tf.Variable([0.0, 2.0])
    with bp.probe(nonfinite=True) as rec:
        a = 1 / v
        loss = tf.reduce_sum(a)
    assert [finding.headline for finding in bp.explain(rec).of_kind("born")] == ["Inf is born at 'a': division by zero"]
