"""Births in TensorFlow's blocks and functions: items, Variables that are assigned to, zero gradients that meet Inf."""

import pytest
import tensorflow as tf

import backprobe as bp


def in_function(program):
    return bp.explain(bp.probe(program, nonfinite=True)(tf.constant([0.0, 2.0])))


def in_block(program):
    x = tf.Variable([0.0, 2.0])
    with bp.probe(nonfinite=True) as rec:
        with tf.GradientTape() as tape:
            loss = program(x)
        tape.gradient(loss, x)
    return bp.explain(rec)


in_both = pytest.mark.parametrize("explained", [in_function, in_block])


def items_within(x):
    return tf.reduce_sum(tf.stack([tf.math.log(v) for v in tf.unstack(x)]))


def items_of_a_list(x):
    parts = [1 / v for v in tf.unstack(x)]
    return tf.add_n(parts)


def counted(x):
    return sum(tf.math.log(x[i]) for i in range(2))


def both_of_two(x):
    a, b = x / x, x * 2
    return tf.reduce_sum(a + b)


def assigned(x):
    v = tf.Variable([1.0, 2.0])
    v.assign(v / 0)
    return tf.reduce_sum(v * x)


def subtracted(x):
    v = tf.Variable([1.0, 2.0])
    v.assign_sub(tf.math.log(x))
    return tf.reduce_sum(v * v)


FORWARD = [
    (items_within, "at"),
    (items_of_a_list, "by_zero"),
    (counted, "at"),
    (both_of_two, "zero_zero"),
    (assigned, "by_zero"),
    (subtracted, "at"),
]


@in_both
@pytest.mark.parametrize(("program", "why"), FORWARD)
def test_the_reason_is_found_in_the_statement(program, why, explained):
    birth = explained(program).of_kind("born", "unknown", "came_in")[0]
    assert (birth.kind, birth.fields.get("why")) == ("born", why)


def root_of_items(x):
    return tf.reduce_sum([tf.sqrt(v) for v in tf.unstack(x)])


def inf_as_a_factor(x):
    y = x * tf.constant([float("inf"), 1.0])
    return tf.reduce_sum(tf.where([False, True], y, x))


def nan_within_a_power(x):
    y = (x - tf.constant([float("nan"), 1.0])) ** 2
    return tf.reduce_sum(tf.boolean_mask(y, [False, True]))


def product_left_out(x):
    return tf.reduce_sum(tf.where(x > 0, x * tf.math.log(x), 0.0))


def overflow_in_a_divisor(x):
    p = tf.exp(tf.clip_by_value(x * 100, -80, 80)) / tf.reduce_sum(tf.exp(x * 100))
    return p[0]


@in_both
@pytest.mark.parametrize(
    ("program", "why"),
    [
        (root_of_items, "pole"),
        (inf_as_a_factor, "zero_gradient_inf"),
        (nan_within_a_power, "zero_gradient_nan"),
        (product_left_out, "pole_zero"),
    ],
)
def test_the_reason_of_a_gradient(program, why, explained):
    assert [one.fields.get("why") for one in explained(program).of_kind("born_backward")] == [why]


@in_both
def test_of_two_suspects_the_one_that_multiplies_by_inf_is_named(explained):
    report = explained(overflow_in_a_divisor)
    assert report.findings[0].fields.get("why") == "overflow_of"
    assert not report.of_kind("unknown")


def test_flags_of_a_layer_are_not_among_what_was_seen():
    dense = tf.keras.layers.Dense(1, kernel_initializer="ones")
    model = tf.keras.Sequential([dense])
    x = tf.constant([[3e38, 3e38]])
    model(x)
    birth = bp.explain(bp.probe(model, ["**", "**:*"], of=tf.reduce_sum, nonfinite=True)(x)).of_kind("born")[0]
    assert birth.facts
    assert not any(fact.endswith((" is False", " is True", " is None")) for fact in birth.facts), birth.facts
