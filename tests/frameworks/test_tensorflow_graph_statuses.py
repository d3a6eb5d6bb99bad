"""Values of graphs that have no gradient, and why; loops, branches, and what is fed in the middle."""

import numpy as np
import pytest
import tensorflow as tf
from graphs import fed, graph, numbers, v1

import backprobe as bp


@pytest.fixture
def old_control_flow():
    """Loops and branches as operations of the graph itself."""
    v1.disable_control_flow_v2()
    yield
    v1.enable_control_flow_v2()


@pytest.fixture
def differentiable_control_flow():
    """Loops and branches as single operations, which give from the start what their gradients need."""
    v1.experimental.output_all_intermediates(True)
    yield
    v1.experimental.output_all_intermediates(None)


def test_what_stop_gradient_cuts_off_is_detached_and_what_is_before_it_not_connected():
    def build():
        x = fed()
        before = tf.multiply(x, x, name="before")
        after = tf.stop_gradient(before, name="after")
        return tf.multiply(tf.add(after, after, name="later"), x, name="y")

    with graph(build) as (y, session):
        rec = bp.probe(y, partials=True, session=session)({"x": 3.0})
    assert {name: str(entry.status) for name, entry in rec.items()} == {
        "x": "ok", "before": "not_connected", "after": "detached", "later": "detached", "y": "ok"
    }  # fmt: skip
    assert rec["x"].grad == 18.0
    assert [edge.name for edge in rec["y"].inputs] == ["x"]
    assert rec["before"].reason == (
        "every path from it to the output goes through StopGradient (after), and no gradient does"
    )
    assert rec["after"].reason == (
        "it was computed from differentiated values, and tf.stop_gradient lets no gradient through"
    )
    assert rec["later"].reason.endswith("and these are themselves detached")
    assert rec.path_sums.agree


def test_nothing_flows_through_a_rounding():
    def build():
        x = fed()
        before = tf.multiply(x, 2.0, name="before")
        return tf.multiply(tf.floor(before, name="whole"), x, name="y")

    with graph(build) as (y, session):
        rec = bp.probe(y, session=session)({"x": 3.25})
    assert (rec["x"].grad, rec["whole"].grad) == (6.0, 3.25)
    assert rec["before"].status == "not_connected"
    assert "Floor (whole)" in rec["before"].reason
    assert rec["whole"].inputs == ()
    assert [edge.name for edge in rec["y"].inputs] == ["x", "whole"]


def test_a_gathered_gradient_is_dense():
    def build():
        table = v1.get_variable("table", initializer=np.arange(6.0, dtype="float32").reshape(3, 2))
        return tf.reduce_sum(tf.nn.embedding_lookup(table, fed("at", (None,), tf.int32)), name="y")

    with graph(build) as (y, session):
        rec = bp.probe(y, session=session)({"at": [2, 2, 0]})
    assert rec["table"].grad.tolist() == [[1.0, 1.0], [0.0, 0.0], [2.0, 2.0]]
    assert rec["table"].value.shape == (3, 2)


def loop():
    x = fed()
    w = v1.get_variable("w", initializer=2.0)
    _, cube = tf.while_loop(lambda i, z: i < 3, lambda i, z: (i + 1, z * w), [0, x], name="loop")
    return tf.multiply(cube, 1.0, name="y")


def test_the_inside_of_an_old_loop_is_opaque_and_its_outside_is_named(old_control_flow):
    with graph(loop) as (y, session):
        rec = bp.probe(y, partials=True, session=session)({"x": 1.0})
    assert (rec["x"].grad, rec["w"].grad, rec["w"].value, rec["y"].value) == (8.0, 12.0, 2.0, 8.0)
    assert rec["loop/mul"].status == "opaque"
    assert rec["loop/mul"].reason == (
        "loop/mul is inside a loop or a branch of the graph, where TensorFlow gives it no value of its own; "
        "what goes in and what comes out have names"
    )
    assert set(rec["loop/Exit_1"].partials) == {"x", "w"}
    assert rec.path_sums.agree


def test_a_new_loop_is_one_operation_and_the_notes_say_so(differentiable_control_flow):
    with graph(loop) as (y, session):
        rec = bp.probe(y, session=session)({"x": 1.0})
    assert (rec["x"].grad, rec["w"].grad, rec["w"].value, rec["loop.3"].value) == (8.0, 12.0, 2.0, 8.0)
    assert rec.notes == ("loop is one operation, a loop: what it computes inside has no names here",)


def test_a_variable_is_opaque_where_a_branch_may_write_to_it_and_not_where_it_reads(differentiable_control_flow):
    def build():
        x, w, c = fed(), v1.get_variable("w", initializer=2.0), v1.get_variable("c", initializer=0.0)

        def counted():
            with tf.control_dependencies([c.assign_add(1.0)]):
                return x * w

        return tf.cond(x > 0, counted, lambda: -x, name="side")

    with graph(build) as (y, session):
        rec = bp.probe(y, ["x", "w", "c"], session=session)({"x": 3.0})
    assert (rec["w"].grad, rec["w"].value) == (3.0, 2.0)
    assert rec["c"].reason.startswith("side may write to it during this run")


@pytest.mark.parametrize("x, value, gradient", [(3.0, 9.0, 6.0), (-3.0, 3.0, -1.0)])
def test_a_branch_gives_the_gradient_of_the_side_that_ran(old_control_flow, x, value, gradient):
    def build():
        given = fed()
        return tf.cond(given > 0, lambda: given * given, lambda: -given, name="side")

    with graph(build) as (y, session):
        rec = bp.probe(y, session=session)({"x": x})
    assert (rec.result, rec["x"].grad) == (value, gradient)
    assert rec["side/mul"].status == "opaque"


def test_what_is_fed_is_where_the_graph_begins():
    def build():
        x = fed()
        u = tf.multiply(x, 2.0, name="u")
        return tf.add(u * u, x, name="y")

    with graph(build) as (y, session):
        rec = bp.probe(y, partials=True, session=session)({"u": 5.0, "x": 1.0})
        whole = bp.probe(y, session=session)({"x": 1.0})
    assert numbers(rec) == {"x": 1.0, "u": 10.0, "mul": 1.0, "y": 1.0}
    assert whole["x"].grad == 9.0
    assert rec.path_sums.agree
