"""Values of graphs that have no gradient, and why; loops, branches, and what is fed in the middle."""

import re

import numpy as np
import pytest
import tensorflow as tf
from graphs import fed, of, probed, v1

import backprobe as bp
from asked import says


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


@of({"x": 3.0}, partials=True).gives(
    all_statuses={"x": "ok", "before": "not_connected", "after": "ok", "later": "ok", "y": "ok"},
    grads={"x": 18.0, "after": 6.0, "later": 3.0},
    reasons={"before": "every path from it to the output goes through StopGradient (after), and no gradient does"},
    inputs_of={"after": [], "later": ["after"], "y": ["later", "x"]},
    agree=True,
)
def test_what_stop_gradient_returns_has_a_gradient_of_its_own_and_what_is_before_it_none():
    x = fed()
    before = tf.multiply(x, x, name="before")
    after = tf.stop_gradient(before, name="after")
    return tf.multiply(tf.add(after, after, name="later"), x, name="y")


def stopped_twice(x):
    first = tf.stop_gradient(tf.exp(x, name="u"), name="first")
    return tf.stop_gradient(tf.sin(first, name="v"), name="second") * x


def stopped_and_beside(x):
    u = tf.exp(x, name="u")
    return tf.stop_gradient(u, name="first") * u + u


def straight_through(x):
    u = tf.multiply(x, 2.0, name="u")
    return tf.add(u, tf.stop_gradient(tf.round(u, name="v") - u, name="first"), name="second") ** 2


def through_integers(x):
    whole = tf.cast(tf.cast(tf.exp(x, name="u"), tf.int32, name="v"), tf.float32, name="first")
    return tf.multiply(whole, 0.5, name="second") * x


@tf.custom_gradient
def one_way(u):
    return u * 2.0, lambda upstream: None


def left_out(x):
    return x * tf.identity(one_way(tf.exp(x, name="u")), name="second")


def stopped_alone(x):
    return tf.stop_gradient(tf.exp(x, name="u"), name="first") * x


def two_ways(x):
    u = tf.exp(x, name="u")
    return (tf.stop_gradient(tf.multiply(u, 2.0, name="v"), name="first") + tf.round(u, name="second")) * x


@pytest.mark.parametrize(
    "program, said",
    [
        (
            stopped_alone,
            {"u": "'u' goes into 'y' through StopGradient (first) alone, and no gradient comes back through that"},
        ),
        (
            two_ways,
            {
                "u": "'u' goes into 'y' through Round (second), StopGradient (first) alone, and no gradient comes back "
                "through that",
                "v": "'v' goes into 'y' through StopGradient (first) alone, and no gradient comes back through that",
            },
        ),
        (left_out, {"u": "'u' goes into 'y', and a gradient function on the way there gives none for it"}),
    ],
)
def test_what_the_graph_cuts_off_is_not_said_to_lead_nowhere(program, said):
    rec = probed(lambda: tf.identity(program(fed()), name="y"), {"x": 1.3})
    for name, headline in said.items():
        report = bp.explain(rec, name)
        assert [(one.kind, one.headline) for one in report.findings] == [("graph_cut", headline)]
        assert "computed from" not in str(report)
    (note,) = bp.explain(rec).notes
    assert note.startswith("cut off in the graph on every path to the output: u")


def test_the_line_is_that_of_the_operation_that_cuts_it_off():
    def build():
        u = tf.exp(fed(), name="u")
        kept = tf.multiply(u, 2.0, name="v")
        kept = tf.round(kept, name="whole")
        return tf.identity(kept, name="y")

    rec = probed(build, {"x": 1.3})
    for name in ("u", "v"):
        (found,) = bp.explain(rec, name).findings
        assert (found.kind, found.source.text.strip()) == ("graph_cut", 'kept = tf.round(kept, name="whole")')


def test_a_variable_that_the_graph_cuts_off_is_not_said_to_lead_nowhere():
    def build():
        w = v1.get_variable("w", initializer=2.0)
        return tf.multiply(fed(), tf.stop_gradient(tf.multiply(w, w, name="square"), name="kept"), name="y")

    rec = probed(build, {"x": 1.3})
    (found,) = bp.explain(rec, "w").findings
    assert found.kind == "graph_cut" and "StopGradient (kept)" in found.headline
    (note,) = bp.explain(rec).notes
    assert re.sub(r" \(.*?:\d+\)", "", note) == "cut off in the graph on every path to the output: w, square"


@pytest.mark.parametrize("program", [stopped_twice, stopped_and_beside, straight_through, through_integers])
def test_each_gradient_is_what_tf_gradients_gives_where_a_part_is_cut_off(program):
    with tf.Graph().as_default() as graph:
        x = fed()
        y = tf.identity(program(x), name="y")
        made = {operation.name for operation in graph.get_operations()}
        names = [name for name in ("x", "u", "v", "first", "second") if name in made]
        tensors = [graph.get_tensor_by_name(f"{name}:0") for name in names]
        floating = {tensor.op.name: tensor for tensor in tensors if tensor.dtype.is_floating}
        with v1.Session() as session:
            rec = bp.probe(y, session=session)({"x": 1.3})
            for name, gradient in zip(floating, v1.gradients(y, list(floating.values())), strict=True):
                expected = None if gradient is None else session.run(gradient, {x: 1.3})
                assert rec[name].grad_or_none == expected, name
            assert rec["second" if "second" in floating else "first"].status == "ok"


def test_nothing_flows_through_a_rounding():
    def build():
        x = fed()
        before = tf.multiply(x, 2.0, name="before")
        return tf.multiply(tf.floor(before, name="whole"), x, name="y")

    rec = probed(build, {"x": 3.25})
    says(rec, grads={"x": 6.0, "whole": 3.25}, statuses={"before": "not_connected"})
    assert "Floor (whole)" in rec["before"].reason
    assert rec["whole"].inputs == ()
    assert [edge.name for edge in rec["y"].inputs] == ["x", "whole"]


@of({"at": [2, 2, 0]}).gives(
    grads={"table": [[1.0, 1.0], [0.0, 0.0], [2.0, 2.0]]}, values={"table": [[0, 1], [2, 3], [4, 5]]}
)
def test_a_gathered_gradient_is_dense():
    table = v1.get_variable("table", initializer=np.arange(6.0, dtype="float32").reshape(3, 2))
    return tf.reduce_sum(tf.nn.embedding_lookup(table, fed("at", (None,), tf.int32)), name="y")


def loop():
    x = fed()
    w = v1.get_variable("w", initializer=2.0)
    _, cube = tf.while_loop(lambda i, z: i < 3, lambda i, z: (i + 1, z * w), [0, x], name="loop")
    return tf.multiply(cube, 1.0, name="y")


def test_the_inside_of_an_old_loop_is_opaque_and_its_outside_is_named(old_control_flow):
    rec = probed(loop, {"x": 1.0}, partials=True)
    inside = (
        "loop/mul is inside a loop or a branch of the graph, where TensorFlow gives it no value of its own; "
        "what goes in and what comes out have names"
    )
    says(rec, grads={"x": 8.0, "w": 12.0}, values={"w": 2.0, "y": 8.0}, statuses={"loop/mul": "opaque"}, agree=True)
    assert rec["loop/mul"].reason == inside
    assert set(rec["loop/Exit_1"].partials) == {"x", "w"}


@pytest.mark.usefixtures("differentiable_control_flow")
def test_a_new_loop_is_one_operation_and_the_notes_say_so():
    note = "loop is one operation, a loop: what it computes inside has no names here"
    says(probed(loop, {"x": 1.0}), grads={"x": 8.0, "w": 12.0}, values={"w": 2.0, "loop.3": 8.0}, notes=(note,))


def test_a_variable_is_opaque_where_a_branch_may_write_to_it_and_not_where_it_reads(differentiable_control_flow):
    def build():
        x, w, c = fed(), v1.get_variable("w", initializer=2.0), v1.get_variable("c", initializer=0.0)

        def counted():
            with tf.control_dependencies([c.assign_add(1.0)]):
                return x * w

        return tf.cond(x > 0, counted, lambda: -x, name="side")

    rec = probed(build, {"x": 3.0}, select=["x", "w", "c"])
    says(rec, both={"w": (2.0, 3.0)})
    assert rec["c"].reason.startswith("side may write to it during this run")


@pytest.mark.parametrize("x, value, gradient", [(3.0, 9.0, 6.0), (-3.0, 3.0, -1.0)])
def test_a_branch_gives_the_gradient_of_the_side_that_ran(old_control_flow, x, value, gradient):
    def build():
        given = fed()
        return tf.cond(given > 0, lambda: given * given, lambda: -given, name="side")

    says(probed(build, {"x": x}), result=value, grads={"x": gradient}, statuses={"side/mul": "opaque"})


def test_what_is_fed_is_where_the_graph_begins():
    def build():
        x = fed()
        u = tf.multiply(x, 2.0, name="u")
        return tf.add(u * u, x, name="y")

    rec = probed(build, {"u": 5.0, "x": 1.0}, partials=True)
    says(rec, all_grads={"x": 1.0, "u": 10.0, "mul": 1.0, "y": 1.0}, agree=True)
    assert probed(build, {"x": 1.0})["x"].grad == 9.0
