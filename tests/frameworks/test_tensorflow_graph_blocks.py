"""Blocks and scripts around programs that build a graph for a session: they run as without, in any state of it."""

import sys

import pytest
import tensorflow as tf

import backprobe as bp
from commands import invoked

v1 = tf.compat.v1

SCRIPT = """\
import tensorflow as tf

v1 = tf.compat.v1
with tf.Graph().as_default():
    x = v1.placeholder(tf.float32, (None, 3), name="x")
    w = v1.get_variable("w", (3, 1), initializer=v1.ones_initializer())
    loss = tf.reduce_mean(BODY)
    train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for step in range(2):
            print(session.run([loss, train], {x: [[1.0, 2.0, 3.0]]})[0])
"""


def trained():
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, (None, 3), name="x")
        w = v1.get_variable("w", (3, 1), initializer=v1.ones_initializer())
        loss = tf.reduce_mean((x @ w) ** 2)
        train = v1.train.GradientDescentOptimizer(0.01).minimize(loss)
        initial = v1.global_variables_initializer()
        graph.finalize()  # a node more would be an error
        with v1.Session() as session:
            session.run(initial)
            losses = [session.run([loss, train], {x: [[1.0, 2.0, 3.0]]})[0] for _ in range(3)]
            return losses, session.run(w).tolist(), len(graph.get_operations())


def test_a_block_around_a_graph_adds_nothing_to_it():
    wanted = trained()
    with bp.probe(nonfinite=True) as rec:
        found = trained()
    assert found == wanted
    assert bp.explain(rec) is not None


def test_a_block_in_which_the_graph_has_variables_of_its_own():
    with tf.Graph().as_default() as graph:
        with bp.probe() as rec:
            w = v1.get_variable("w", initializer=2.0)
            loss = w * w
            gradient = tf.gradients(loss, w)
            made = len(graph.get_operations())
        assert len(graph.get_operations()) == made and len(gradient) == 1
    assert "the block was not differentiated: it builds a graph, whose values have numbers in a session alone" in str(
        bp.explain(rec)
    )
    assert "bp.probe(loss, session=session)" in bp.explain(rec).findings[0].remedy
    assert [note.code for note in rec.record.notes] == ["graph_not_followed", "block_not_differentiated"]


def test_functions_are_no_graphs_for_sessions():
    @tf.function
    def square(x):
        return x * x

    x = tf.Variable(3.0)
    with bp.probe() as rec:
        y = square(x)
    assert rec["x"].grad == 6 and y == 9
    assert "graph_not_followed" not in [note.code for note in rec.record.notes]


def explained(text, tmp_path, monkeypatch):
    path = tmp_path / "train.py"
    path.write_text(text)
    monkeypatch.setattr(sys, "argv", [str(path)])
    status, out, err = invoked("explain", str(path))
    return status, out + err


@pytest.mark.parametrize("body", ["(x @ w - 1.0) ** 2"])
def test_a_script_that_trains_in_a_session(body, tmp_path, monkeypatch):
    status, out = explained(SCRIPT.replace("BODY", body), tmp_path, monkeypatch)
    assert status == 0, out
    assert "the only parameter got a gradient" in out
    assert "this is iteration 2 of those that" in out


def test_a_graph_of_which_no_gradient_comes(tmp_path, monkeypatch):
    status, out = explained(SCRIPT.replace("BODY", "tf.round(x @ w)"), tmp_path, monkeypatch)
    assert status == 3
    assert "No gradients provided for any variable" in out
    assert "rec = bp.probe(loss, session=session)(feed) records it" in out
    with tf.Graph().as_default():  # which that says to do
        x = v1.placeholder(tf.float32, (None, 3), name="x")
        w = v1.get_variable("w", (3, 1), initializer=v1.ones_initializer())
        loss = tf.reduce_mean(tf.round(x @ w))
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            rec = bp.probe(loss, session=session)({x: [[1.0, 2.0, 3.0]]})
    (found,) = bp.explain(rec, "w").findings
    assert "through Round (Round) alone, and no gradient comes back through that" in found.headline
    assert found.source.text.strip() == "loss = tf.reduce_mean(tf.round(x @ w))"
