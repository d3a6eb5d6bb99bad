"""A line that cannot be evaluated again costs the report that remedy, and nothing else."""

import numpy as np
import pytest
import tensorflow as tf

import backprobe as bp
from backprobe.explain.nonfinite.forward_births import ForwardPass

X = np.ones((3, 2), np.float32)
W = np.array([[1, 0, 1, 1], [1, 0, 1, 1]], np.float32)
NOTE = "not every remedy could be tried at 'z'"


def tiled_and_reshaped(x, w):
    s = tf.reduce_sum(tf.abs(w), axis=0)
    tiled = tf.reshape(tf.tile(s, [tf.shape(x)[0]]), shape=[tf.shape(x)[0], tf.shape(w)[1]])
    z = tf.divide(tf.matmul(x, w), tiled)
    return tf.reduce_sum(z)


def tiled(x, w):
    s = tf.reduce_sum(tf.abs(w), axis=0)
    t = tf.tile(s, [3])
    z = 1.0 / t
    return tf.reduce_sum(z)


def logarithm_of_tiled(x, w):
    s = tf.reduce_sum(tf.abs(w), axis=0)
    t = tf.tile(tf.clip_by_value(s, 0.0, 5.0), [2])
    z = tf.math.log(t)
    return tf.reduce_sum(z)


def all_in_one_line(x, w):
    s = tf.reduce_sum(tf.abs(w), axis=0)
    z = tf.matmul(x, w) / tf.reshape(tf.tile(s, [3]), [3, 4])
    return tf.reduce_sum(z)


BORN = {
    tiled_and_reshaped: "NaN is born at 'z': 0/0",
    tiled: "Inf is born at 'z': division by zero",
    logarithm_of_tiled: "Inf is born at 'z': log(0)",
    all_in_one_line: "NaN is born at 'z': 0/0",
}


@pytest.mark.parametrize("options", [{"nonfinite": True}, {}], ids=str)
@pytest.mark.parametrize("program", BORN, ids=lambda one: one.__name__)
def test_what_is_tiled_is_explained(program, options):
    report = bp.explain(bp.probe(program, **options)(X, W))

    assert report.findings[0].headline == BORN[program]
    assert [note for note in report.notes if note.startswith(NOTE) and "evaluating the line again failed" in note]


def test_a_remedy_that_could_be_tried_is_given():
    report = bp.explain(bp.probe(tiled_and_reshaped, nonfinite=True)(X, W))

    without_zero = "`tf.where(tiled == 0, 0.0, tf.matmul(x, w) / tf.where(tiled == 0, 1.0, tiled))` instead of"
    assert report.findings[0].remedy.startswith(without_zero)


@pytest.mark.parametrize("error", [ValueError("shapes"), IndexError(), TypeError("a tuple"), ZeroDivisionError()])
def test_where_no_birth_can_be_judged_that_is_said(monkeypatch, error):
    def births(*_):
        raise error

    monkeypatch.setattr(ForwardPass, "births", births)
    report = bp.explain(bp.probe(tiled, nonfinite=True)(X, W))

    assert report.heading == "where NaN or Inf begins could not be judged"
    assert report.findings[0].headline == "the output 'return' holds Inf, and where that began is not known"
    assert report.notes[0].startswith(f"evaluating the recorded lines again failed: {type(error).__name__}")
    assert not report.ok
