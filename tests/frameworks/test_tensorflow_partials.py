"""Local partials on TensorFlow's eager tensors: what flows from one value into the next, and no further."""

import functools
import math

import numpy as np
import pytest
import tensorflow as tf

import backprobe as bp
from asked import on, partials

probe = functools.partial(bp.probe, backend="tensorflow", partials=True)


probed = functools.partial(on, backend="tensorflow", partials=True)


def squared(z):
    return z * z


@probed(3.0).gives(partials={"∂/squared:return/∂x": 6, "∂return/∂x": 9, "∂return/∂/squared:return": 3})
def test_names_for_the_same_value_share_its_edge(x):
    y = x
    return squared(y) * y


def several(x, w):
    u = x * w
    s = tf.reduce_sum(u * u)
    return s


SEVERAL, FLOWS = ([1.0, 2.0], 3.0), {"x←u": [18, 36], "w←u": 30, "u←s": [6, 12]}
test_a_value_of_several_elements_has_contributions = probed(*map(tf.constant, SEVERAL)).gives(
    partials={"∂s/∂u": [6, 12]}, contributions=FLOWS
)(several)
test_a_value_of_several_elements_has_blocks_on_request = on(*map(tf.constant, SEVERAL), partials="full").gives(
    partials={"∂s/∂u": [6, 12], "∂u/∂x": [[3, 0], [0, 3]], "∂u/∂w": [1, 2]}, contributions=FLOWS
)(several)


def test_a_block_that_is_too_large_is_left_out_and_said():
    rec = bp.probe(lambda x: tf.sin(x), cotangent=np.ones(2000), partials="full")(tf.ones(2000))
    assert partials(rec) == {}
    assert "a Jacobian block of 4,000,000 elements was not computed: the limit is 1,000,000" in rec.notes[0]
    assert rec["return"].contributions["x"].shape == (2000,)


def test_jacobians():
    def f(x):
        u = x * x
        return tf.concat([u, x[:1]], 0)

    x = tf.constant([1.0, 3.0])
    assert bp.jacobian(f, "x")(x).numpy().tolist() == [[2, 0], [0, 6], [1, 0]]
    assert bp.jacobian(f, "u")(x).numpy().tolist() == [[1, 0], [0, 1], [0, 0]]


@probed(0.0).gives(
    partials={"∂u/∂x": math.inf, "∂v/∂u": 0, "∂v/∂x": 1, "∂s/∂v": 2},
    grads={"x": pytest.approx(math.nan, nan_ok=True)},  # as TensorFlow has it: 0 · inf + 2
    agree=True,
)
def test_zero_times_infinity_is_not_made(x):
    u = x**0.5
    v = u * 0.0 + x
    s = v * 2.0
    return s


@probed(0.0).gives(
    partials={"∂u/∂x": math.inf, "∂v/∂u": 0, "∂v/∂x": 1}, contributions={"x←u": 0, "u←v": 0, "x←v": 1}, agree=True
)
def test_what_tensorflow_knows_to_be_zero_counts_where_the_product_is_not_finite(x):
    u = tf.sqrt(x)
    v = u * 0.0 + x
    return v


@on(3.0, backend="tensorflow", partials=True).gives(
    partials={"∂aside/∂x": 5, "∂return/∂x": 2}, contributions={"x←return": 2}
)
def test_a_value_that_is_not_connected_has_local_partials_and_no_contributions(x):
    aside = x * 5
    return x * 2


w = tf.Variable(2.0)


@probed(3.0).gives(partials={"∂y/∂x": 4, "∂y/∂a": 12, "∂return/∂a": 1, "∂return/∂y": 1}, agree=True)
def test_partials_of_a_variable(x):
    a = w
    y = a * a * x
    return y + a


def test_partials_through_a_compiled_function_and_branches():
    @tf.function
    def inner(z):
        q = z * z
        return q + z

    def f(x):
        y = inner(x)
        return tf.cond(y > 0, lambda: y * x, lambda: y)

    rec = probe(f)(2.0)
    assert partials(rec)["∂/inner:q/∂x"] == 4
    assert partials(rec)["∂y/∂x"] == 1
    assert rec.path_sums.agree


@probed(tf.constant([1.0, 2.0, 3.0, 4.0])).gives(
    partials={"∂s/∂a": [2, 4], "∂s/∂b": [3, 3]},
    contributions={"x←a": [2, 4, 0, 0], "x←b": [0, 0, 3, 3], "a←s": [2, 4], "b←s": [3, 3]},
    agree=True,
)
def test_an_operation_with_several_outputs(x):
    a, b = tf.split(x, 2)
    s = tf.reduce_sum(a * a) + tf.reduce_sum(b) * 3
    return s


@probed(1 + 2j).gives(partials={"∂return/∂w": 1}, agree=True)
def test_complex_values_have_contributions_and_no_partials(z):
    w = z * z
    return tf.math.real(w)


def test_a_tap_is_the_same_for_the_same_tensor():
    seen = []

    def f(x):
        u = x * 2.0
        seen.append(u)
        v = u
        pair = [u, v]
        seen.extend(pair)
        return pair[0] * pair[1]

    rec = probe(f)(1.0)
    assert seen[0] is seen[1] is seen[2] is rec["u"].value
    assert rec["u"].aliases == ("v", "pair.0", "pair.1")
