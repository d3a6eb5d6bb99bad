"""Tensors of ``tf.compat.v1`` graphs: values and gradients by the graph's names, from one run."""

import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf
from graphs import fed, graph, of, operations, probed, s3, v1

import backprobe as bp
from asked import all_grads, round_trip, says
from drawn import Drawn

FIVE = {"x": 2.0, "w": 3.0, "b": 1.0, "u": 1.0, "v": 1.0, "a": 1.0}


# S3


@pytest.mark.supports(
    "`tf.compat.v1` graphs: every tensor by its graph name, from one `tf.gradients` and one `Session.run`",
    "TensorFlow and Keras",
)
@pytest.mark.parametrize("resource", [True, False], ids=["resource variables", "reference variables"])
@pytest.mark.parametrize("kind", [v1.Session, v1.InteractiveSession])
def test_s3_gives_the_five_numbers_by_the_graphs_names(resource, kind):
    with graph(lambda: s3(resource), kind) as (a, session):
        x = session.graph.get_tensor_by_name("x:0")
        rec = bp.probe(a, session=session)({x: 3.0})
    values = {"x": 3.0, "w": 2.0, "b": 1.0, "u": 6.0, "v": 7.0, "a": 7.0}
    says(rec, all_grads=FIVE, values=values, names=[*values], result=7.0, outputs=["a"])
    assert rec.missing() == {}


def test_s3_takes_one_tf_gradients_call_and_one_run(monkeypatch):
    calls = []
    gradients, run = v1.gradients, v1.Session.run
    monkeypatch.setattr(v1, "gradients", lambda *a, **k: calls.append("gradients") or gradients(*a, **k))
    monkeypatch.setattr(v1.Session, "run", lambda *a, **k: calls.append("run") or run(*a, **k))
    with graph(s3) as (a, session):
        calls.clear()
        bp.probe(a, session=session)({"x": 3.0})
        assert calls == ["gradients", "run"]


@pytest.mark.supports("`tf.compat.v1` graphs: partials and drawing", "TensorFlow and Keras")
def test_s3_is_drawn_with_its_partials():
    rec = probed(s3, {"x": 3.0}, partials=True)
    drawn = Drawn(bp.draw(rec).svg)
    assert drawn.edges == {("x", "u"): "2", ("w", "u"): "3", ("u", "v"): "1", ("b", "v"): "1", ("v", "a"): "1"}
    assert drawn.nodes["u"] == ["= 6", "∂a/∂u = 1"]
    assert "parameter" in drawn.classes["w"]
    assert rec.path_sums.agree
    assert "∂a/∂x = ∂a/∂v · ∂v/∂u · ∂u/∂x = 1·1·2 = 2" in str(bp.derive(rec, "x"))


def test_the_default_session_is_taken_where_none_is_given():
    with graph(s3) as (a, session), session.as_default():
        assert all_grads(bp.probe(a)({"x": 3.0})) == FIVE


def test_backward_visits_the_graph_the_other_way_round():
    assert probed(s3, {"x": 3.0}).backward_order() == ["a", "v", "u", "b", "w", "x"]


def test_values_and_gradients_are_of_the_same_run_of_a_dropout():
    def build():
        return tf.reduce_sum(v1.nn.dropout(fed(shape=(64,)), rate=0.5, name="drop"), name="loss")

    with graph(build) as (loss, session):
        runs = [bp.probe(loss, session=session)({"x": np.ones(64)}) for _ in range(8)]
    for rec in runs:
        kept = rec["drop/SelectV2"].value
        assert set(kept.tolist()) <= {0.0, 2.0}
        assert rec["x"].grad.tolist() == kept.tolist()
        assert rec.result == kept.sum()
    assert len({rec["drop/SelectV2"].value.tobytes() for rec in runs}) > 1


def test_a_recording_of_a_graph_is_saved_and_loaded(tmp_path):
    rec = probed(s3, {"x": 3.0}, partials=True)
    loaded = round_trip(rec, tmp_path)
    assert str(loaded) == str(rec)
    assert loaded["u"].partials.keys() == {"x", "w"}
    assert loaded.result == 7.0
    assert loaded["w:0"].grad == 3.0


def test_an_entry_has_the_users_line_that_made_its_operation():
    source = probed(s3, {"x": 3.0})["u"].source
    assert source.text == 'u = tf.multiply(x, w, name="u")'
    assert source.file.endswith("graphs.py")


# names


SCOPED = {"data/x": np.arange(4.0)}


def scoped():
    x = fed("data/x", (4,))
    first, second = tf.split(x * 3.0, 2, name="halves")
    return tf.reduce_sum(first * second, name="loss")


def test_output_0_drops_its_number_and_output_n_is_a_leaf():
    rec = probed(scoped, SCOPED)
    assert [name for name in rec if name.startswith("halves")] == ["halves", "halves.1"]
    assert rec["halves.1"].value.tolist() == [6.0, 9.0]


@pytest.mark.parametrize("asked", ["`data/x`", "data/x", "data/x:0", ":`data/x`", "halves:1", "halves.1"])
def test_a_name_is_found_as_tensorflow_writes_it_too(asked):
    assert probed(scoped, SCOPED)[asked].name == ("`data/x`" if "data" in asked else "halves.1")


def test_a_name_that_is_not_there_names_the_nearest():
    rec = probed(scoped, SCOPED)
    with pytest.raises(bp.UnknownName) as caught:
        rec["data/xs"]
    assert caught.value.next == "rec['`data/x`']"


def test_a_variable_is_one_entry_and_its_reads_are_other_names_of_it():
    def build():
        w = v1.get_variable("w", initializer=2.0)
        return tf.add(w * w, w, name="y")

    rec = probed(build)
    says(rec, all_grads={"w": 5.0, "mul": 1.0, "y": 1.0})
    assert rec["mul/ReadVariableOp"] is rec["w"]
    assert set(rec["w"].aliases) >= {"`mul/ReadVariableOp`", "`y/ReadVariableOp`"}


@of({"x": 3.0}).gives(
    statuses={"w": "opaque"},
    reasons={"w": "AssignVariableOp may write to it during this run: each of its reads is a value of its own"},
    both={"before/ReadVariableOp": (2.0, 3.0), "Read/ReadVariableOp": (5.0, 10.0)},
)
def test_a_variable_that_the_run_writes_has_a_value_for_each_read():
    w = v1.get_variable("w", initializer=2.0)
    before = tf.multiply(fed(), w, name="before")
    with tf.control_dependencies([before]), tf.control_dependencies([w.assign(5.0)]):
        after = w.read_value()
    return tf.add(before, 10.0 * after, name="y")


def test_a_variable_that_another_part_of_the_target_writes_is_written_too():
    def build():
        w = v1.get_variable("w", initializer=2.0)
        return {"y": tf.multiply(fed(), w, name="y"), "step": w.assign_add(1.0).value()}

    with graph(build) as (target, session):
        assert bp.probe(target, of="y", session=session)({"x": 3.0})["w"].status == "opaque"
        assert bp.probe(target["y"], session=session)({"x": 3.0})["w"].grad == 3.0


# selection


@pytest.mark.parametrize("text, names", [("u", ["u", "a"]), ("w*", ["w", "a"]), ("!u", ["x", "w", "b", "v", "a"])])
def test_patterns_select_by_the_graphs_names(text, names):
    assert list(probed(s3, {"x": 3.0}, select=text)) == names


@pytest.mark.parametrize("text, names", [("net/*", ["`net/u`", "y"]), ("net/**", ["`net/in/x`", "`net/u`", "y"])])
def test_unquoted_patterns_go_by_the_slashes_of_the_graph(text, names):
    def build():
        x = fed("net/in/x")
        return tf.sin(tf.multiply(x, x, name="net/u"), name="y")

    assert list(probed(build, {"net/in/x": 1.0}, select=text)) == names


def test_a_recording_is_selected_from_in_the_same_way():
    rec = probed(scoped, SCOPED)
    assert list(rec.select("data/*")) == ["`data/x`"]
    assert list(rec.select(["halves:1", "loss"])) == ["halves.1", "loss"]


def test_a_pattern_asks_for_what_is_no_floating_tensor_or_not_upstream():
    def build():
        x = fed()
        tf.multiply(x, 7.0, name="beside")
        back = tf.cast(tf.cast(x, tf.int32, name="whole"), tf.float32, name="back")
        return tf.multiply(x, tf.stop_gradient(back, name="stopped"), name="y")

    assert list(probed(build, {"x": 3.5})) == ["x", "back", "stopped", "y"]
    says(
        rec := probed(build, {"x": 3.5}, select="**"),
        values={"whole": 3},
        statuses={"whole": "not_float", "beside": "not_executed", "back": "detached", "stopped": "ok"},
        reasons={"beside": "nothing on the way to the output needs it, so the run does not compute it"},
    )
    assert "a dtype that has no derivative" in rec["back"].reason


def test_nothing_runs_that_the_output_does_not_need():
    def build():
        w = v1.get_variable("w", initializer=2.0, use_resource=False)
        w.assign_add(1.0, name="train")
        return tf.multiply(fed(), w, name="y")

    with graph(build) as (y, session):
        bp.probe(y, "**", session=session)({"x": 3.0})
        assert session.run("w:0") == 2.0


def test_several_tensors_are_a_target_with_of():
    def build():
        x = fed()
        return {"loss": tf.multiply(x, x, name="loss"), "parts": [tf.sin(x, name="s")]}

    with graph(build) as (target, session):
        rec = bp.probe(target, of="loss", session=session)({"x": 3.0})
        second = bp.probe(target, of="parts.0", session=session)({"x": 3.0})
        with pytest.raises(bp.BadOutput) as caught:
            bp.probe(target, session=session)({"x": 3.0})
    assert rec.result["loss"] == 9.0
    assert all_grads(rec) == {"x": 6.0, "loss": 1.0}
    assert list(second) == ["x", "s"]
    assert caught.value.next == "of='loss', or of='parts.0'"


def test_a_function_of_the_target_is_added_to_the_graph_once():
    def first(y):
        return y[0]

    with graph(lambda: tf.sin(fed(shape=(3,)), name="y")) as (y, session):
        rec = bp.probe(y, "x", of=first, session=session)({"x": np.zeros(3)})
        before = operations(session)
        bp.probe(y, "x", of=first, session=session)({"x": np.zeros(3)})
        assert operations(session) == before
    assert rec["x"].grad.tolist() == [1.0, 0.0, 0.0]


# outputs that are no scalars


@pytest.mark.parametrize("shape", [(3,), (None,), None], ids=["known", "partly known", "unknown"])
def test_an_output_that_is_no_scalar_needs_a_cotangent(shape):
    with graph(lambda: tf.sin(fed(shape=shape), name="y")) as (y, session):
        rec = bp.probe(y, session=session, cotangent=[1.0, 0.0, 2.0])({"x": np.zeros(3)})
        with pytest.raises(bp.BadOutput) as caught:
            bp.probe(y, session=session)({"x": np.zeros(3)})
    assert rec["x"].grad.tolist() == [1.0, 0.0, 2.0]
    assert str(caught.value) == (
        "the output is not a scalar\n  asked: its gradient\n  found: shape (3,)\n  why:   only a scalar has one "
        "gradient; any other output needs the vector of a vector-Jacobian product\n"
        "  next:  cotangent=numpy.ones((3,)), or of=lambda result: result[0]"
    )


def test_a_cotangent_of_another_shape_is_refused():
    given = {"x": np.zeros(3)}
    with pytest.raises(bp.BadOutput, match="the cotangent's shape differs from the output's"):
        probed(lambda: tf.sin(fed(shape=(3,)), name="y"), given, cotangent=[1.0, 0.0])
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        probed(lambda: tf.sin(fed(shape=(None,)), name="y"), given, cotangent=[1.0, 0.0])
    assert "backprobe: the cotangent has shape (2,); the graph does not say which shape the output has" in (
        caught.value.__notes__
    )


# partials


@of({"x": 3.5}, select=["x", "u", "v"], partials=True).gives(
    partials={"∂v/∂u": 3.0, "∂s/∂u": 21.0, "∂s/∂v": 7.0, "∂s/∂x": pytest.approx(np.cos(3.5)), "∂u/∂x": 2.0}, judged=4
)
def test_a_partial_leaves_out_what_goes_through_other_recorded_values():
    x = fed()
    u = tf.multiply(x, 2.0, name="u")
    v = tf.multiply(u, 3.0, name="v")
    return tf.add(u * v, tf.sin(x), name="s")


@of({"x": [3.0, 5.0]}, select=["x"], partials="full", cotangent=[1.0, 2.0]).gives(
    partials={"∂y/∂x": [[6.0, 10.0], [27.0, 75.0]]}, contributions={"x←y": [60.0, 160.0]}, grads={"x": [60.0, 160.0]}
)
def test_full_partials_are_jacobian_blocks():
    x = fed(shape=(2,))
    return tf.identity(tf.linalg.matvec(tf.stack([x, x * x]), x), name="y")  # (x0² + x1², x0³ + x1³)


def test_partials_of_a_value_with_an_open_shape_are_there_where_it_has_one_element():
    with graph(lambda: tf.reduce_sum(tf.sin(fed(shape=(None,)), name="u"), name="y")) as (y, session):
        one, two = (bp.probe(y, partials=True, session=session)({"x": np.zeros(n)}) for n in (1, 2))
    assert one["u"].partials["x"].tolist() == [1.0]
    assert two["u"].partials == {}
    assert two["u"].contributions["x"].tolist() == [1.0, 1.0]
    assert two["y"].partials["u"].tolist() == [1.0, 1.0]


# what is left in the graph


@pytest.mark.parametrize("options", [{}, {"partials": True}, {"select": "u"}, {"cotangent": 2.0}])
def test_a_second_probe_adds_nothing_to_the_graph(options):
    with graph(s3) as (a, session):
        bp.probe(a, session=session, **options)({"x": 3.0})
        before = operations(session)
        bp.probe(a, session=session, **options)({"x": 4.0})
        assert operations(session) == before


def test_another_selection_uses_the_same_gradients():
    with graph(s3) as (a, session):
        bp.probe(a, "u", session=session)({"x": 3.0})
        before = operations(session)
        assert all_grads(bp.probe(a, session=session)({"x": 3.0})) == FIVE
        assert operations(session) == before


def test_what_a_probe_adds_is_no_entry_and_changes_no_name_that_the_user_makes():
    with graph(s3) as (a, session):
        rec = bp.probe(a, "**", session=session)({"x": 3.0})
        again = bp.probe(a, "**", session=session)({"x": 3.0})
        added = [op.name for op in session.graph.get_operations() if op.name.startswith("backprobe/")]
        assert added
        assert list(rec) == list(again)
        assert not any("backprobe" in name for name in rec)
        assert v1.gradients(a, session.graph.get_tensor_by_name("x:0"))[0].name.startswith("gradients/")


def test_a_probe_within_scopes_of_the_user_takes_nothing_from_them():
    with graph(s3) as (a, session):
        with tf.control_dependencies([fed("never")]), v1.name_scope("mine"):
            assert all_grads(bp.probe(a, session=session)({"x": 3.0})) == FIVE


def test_a_finalized_graph_is_probed_where_it_was_before_and_else_refused():
    with graph(s3) as (a, session):
        bp.probe(a, session=session)({"x": 3.0})
        session.graph.finalize()
        assert all_grads(bp.probe(a, session=session)({"x": 3.0})) == FIVE
        with pytest.raises(bp.Unsupported) as caught:
            bp.probe(a, partials=True, session=session)({"x": 3.0})
    assert str(caught.value) == (
        "the graph is finalized, so no gradient operations can be added to it\n"
        "  asked: bp.probe(..., session=s)\n"
        "  found: a graph after graph.finalize(), which MonitoredSession too calls\n"
        "  why:   the first probe of a tensor adds them, and later probes of it reuse them\n"
        "  next:  probe it once, in a session of its own, before the graph is finalized"
    )


def test_a_graph_is_not_kept_alive():
    def probed():
        with graph(s3) as (a, session):
            bp.probe(a, partials=True, session=session)({"x": 3.0})
            return weakref.ref(session.graph)

    held = probed()
    gc.collect()
    assert held() is None


def test_a_monitored_session_runs_a_graph_that_was_probed_before():
    with graph(s3) as (a, session):
        bp.probe(a, session=session)({"x": 3.0})
        with v1.train.MonitoredSession() as monitored:
            assert all_grads(bp.probe(a, session=monitored)({"x": 3.0})) == FIVE


def test_a_function_of_the_target_does_not_keep_the_graph_alive():
    def probed():
        with graph(lambda: tf.sin(fed(shape=(3,)))) as (y, session):
            bp.probe(y, of=lambda _: y[0], session=session)({"x": np.zeros(3)})
            return weakref.ref(session.graph)

    held = probed()
    gc.collect()
    assert held() is None
