"""Gradients that programs of TensorFlow take themselves, in sessions and with tapes: each against the program's own."""

import re
import sys
import textwrap

import numpy as np
import pytest
import tensorflow as tf

import backprobe as bp
import prepared
from asked import says
from commands import invoked, unplaced

v1 = tf.compat.v1
FIVE = {"x": 2, "w": 3, "b": 1, "u": 1, "v": 1, "a": 1}
VALUES = {"x": 3, "w": 2, "b": 1, "u": 6, "v": 7, "a": 7}


# graphs and sessions


def seed(resource=True):
    """The graph of the first notebook, and what its five calls of ``tf.gradients`` gave in a session."""
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, (), name="x")
        w = v1.Variable(2.0, name="w", use_resource=resource)
        b = v1.Variable(1.0, name="b", use_resource=resource)
        u = x * w
        v = u + b
        a = tf.nn.relu(v)
        asked = [tf.gradients(a, one) for one in (x, w, b, u, v)]
        initial = v1.global_variables_initializer()
    with v1.Session(graph=graph) as session:
        session.run(initial)
        return session.run(asked, {"x:0": 3.0})


def in_seed(rec):
    return {name: rec[f"/seed:{name}"] for name in FIVE}


@pytest.mark.parametrize("resource", [True, False], ids=["resource variables", "reference variables"])
def test_five_calls_of_one_output_are_one_gradient(resource):
    with bp.probe() as rec:
        grads = seed(resource)
    assert grads == [[2.0], [3.0], [1.0], [1.0], [1.0]]
    assert {name: float(entry.value) for name, entry in in_seed(rec).items()} == VALUES
    assert {name: float(entry.grad) for name, entry in in_seed(rec).items()} == FIVE
    assert rec.output_keys == ()
    assert [one.name for one in rec.outputs] == ["/seed:a"]


def built(body, feed=None, fetch="asked", before=""):
    """A program that builds a graph and runs it, as text."""
    return (
        f"{before}with tf.Graph().as_default() as graph:\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n"
        "    initial = v1.global_variables_initializer()\n"
        "    session = v1.Session()\n"
        "    session.run(initial)\n"
        f"    given = session.run({fetch}, {feed or {}!r})\n"
    )


def block(text, tmp_path):
    """The recording of a block around a program, and the names that the program leaves."""
    source = "import backprobe as bp\nwith bp.probe() as rec:\n" + textwrap.indent(text, "    ")
    names = ran(source, tmp_path / "block.py")
    return names["rec"], names


def ran(text, path):
    path.write_text(text)
    names = {"__name__": "__main__", "tf": tf, "v1": v1, "np": np}
    exec(compile(text, str(path), "exec", dont_inherit=True), names)
    return names


TWO = """
    x = v1.placeholder(tf.float32, (), name="x")
    w = v1.get_variable("w", initializer=2.0)
    b = v1.get_variable("b", initializer=1.0)
    u = x * w
    first = u * u
    second = tf.sin(u) + b
    asked = [tf.gradients(first, [w, u]), tf.gradients(second, [w, b, u])]
"""


def test_outputs_are_kept_apart(tmp_path):
    rec, names = block(built(TWO, {"x:0": 3.0}), tmp_path)
    assert rec.output_keys == ("first", "second")
    one, two = names["given"]
    assert {key: float(value) for key, value in rec["w"].grads.items()} == {"first": one[0], "second": two[0]}
    assert {key: float(value) for key, value in rec["u"].grads.items()} == {"first": one[1], "second": two[2]}
    assert float(rec.of("second")["b"].grad) == two[1] == 1
    assert "first" not in rec["b"].grads
    with pytest.raises(bp.NoGradient, match=r"rec\['w'\].grads\['first'\]"):
        rec["w"].grad  # noqa: B018


def test_a_cotangent_and_what_stop_gradients_holds_make_another_derivative(tmp_path):
    body = """
        w = v1.get_variable("w", initializer=[1.0, 2.0])
        u = w * 3.0
        y = u * w
        asked = [tf.gradients(y, w), tf.gradients(y, w, grad_ys=[[1.0, 10.0]]), tf.gradients(y, w, stop_gradients=[u])]
    """
    rec, names = block(built(body), tmp_path)
    assert rec.output_keys == ("y", "y, pass 2", "y, pass 3")
    for key, (given,) in zip(rec.output_keys, names["given"], strict=True):
        assert rec["w"].grads[key].numpy().tolist() == given.tolist()


def test_a_second_derivative(tmp_path):
    body = """
        x = v1.placeholder(tf.float32, (), name="x")
        y = x * x * x
        (first,) = tf.gradients(y, x)
        (asked,) = tf.gradients(first, x)
    """
    rec, names = block(built(body, {"x:0": 2.0}, fetch="[first, asked]"), tmp_path)
    assert rec.output_keys == ("y", "first")
    assert [float(one) for one in rec["x"].grads.values()] == [*names["given"]] == [12, 12]


def test_rows_of_a_table_are_made_dense(tmp_path):
    body = """
        table = v1.get_variable("table", initializer=np.ones((4, 2), "float32"))
        ids = v1.placeholder(tf.int32, (None,), name="ids")
        picked = tf.gather(table, ids)
        loss = tf.reduce_sum(picked * 3.0)
        asked = tf.gradients(loss, table)[0].values
    """
    rec, _ = block(built(body, {"ids:0": [0, 0, 3]}), tmp_path)
    assert rec["table"].grad.numpy().tolist() == [[6, 6], [0, 0], [0, 0], [3, 3]]
    assert rec["ids"].status == "not_float"


def test_a_finalized_graph_gets_no_operation():
    def program():
        with tf.Graph().as_default() as graph:
            x = v1.placeholder(tf.float32, (2,), name="x")
            w = v1.get_variable("w", initializer=[3.0, 4.0])
            y = tf.reduce_sum(tf.exp(x * w * 0.1))
            given = tf.gradients(y, [x, w])
            initial = v1.global_variables_initializer()
            graph.finalize()
            with v1.Session() as session:
                session.run(initial)
                found = session.run(given, {x: [1.0, 2.0]})
                return found, [(one.name, one.type, [*one.inputs]) for one in graph.get_operations()]

    wanted, operations = program()
    with bp.probe() as rec:
        found, same = program()
    assert repr(same) == repr(operations)
    assert [one.tobytes() for one in found] == [one.tobytes() for one in wanted]
    assert rec["/program:x"].grad.numpy().tobytes() == wanted[0].tobytes()


LAYERS = """
    v1.set_random_seed(3)
    x = v1.placeholder(tf.float32, (None, 64), name="x")
    w = v1.get_variable("w", (64, 32))
    b = v1.get_variable("b", (32,))
    h = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, w), b))
    DROPPED
    loss = tf.reduce_mean(tf.nn.softmax(h) ** 2)
    train = v1.train.AdamOptimizer(0.1).minimize(loss)
    asked = [loss, train]
"""
TRAINED = built(LAYERS, {"x:0": np.linspace(-1, 1, 512).reshape(8, 64).tolist()}) + (
    "    losses = [session.run(asked, {'x:0': np.linspace(-1, 1, 512).reshape(8, 64)})[0] for _ in range(3)]\n"
    "    end = session.run([w, b])\n"
)


@pytest.mark.parametrize("dropped", ["h = h * 2", "h = v1.nn.dropout(h, rate=0.5)"], ids=["plain", "dropout"])
def test_a_training_computes_the_same_bits(dropped, tmp_path):
    text = TRAINED.replace("DROPPED", dropped)
    alone = ran(text, tmp_path / "alone.py")
    rec, names = block(text, tmp_path)
    assert [one.tobytes() for one in names["losses"]] == [one.tobytes() for one in alone["losses"]]
    assert [one.tobytes() for one in names["end"]] == [one.tobytes() for one in alone["end"]]
    assert "the session has computed gradients 4 times: values and gradients are those of the last time" in rec.notes
    if "dropout" in dropped:
        says(rec, statuses={"w": "opaque"})
        assert "dropout/random_uniform/RandomUniform comes before it" in rec["w"].reason
        assert "all 2 parameters got a gradient" in str(bp.explain(rec))
        assert rec["loss"].value.numpy().tobytes() == names["losses"][-1].tobytes()  # which the program has fetched
    else:
        says(rec, statuses={"w": "ok", "b": "ok", "h#1": "ok"})


def while_loop(old):
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, (), name="x")
        w = v1.get_variable("w", initializer=0.9)
        if old:
            v1.disable_control_flow_v2()
        _, h = tf.while_loop(lambda i, h: i < 5, lambda i, h: (i + 1, tf.tanh(h * w)), [tf.constant(0), x])
        v1.enable_control_flow_v2()
        asked = tf.gradients(h * 2.0, [x, w])
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            return session.run(asked, {x: 1.0})


@pytest.mark.parametrize("old", [False, True], ids=["one operation", "operations of control flow"])
def test_a_loop_in_a_graph(old):
    wanted = while_loop(old)
    with bp.probe() as rec:
        given = while_loop(old)
    assert given == wanted
    assert [float(rec[f"/while_loop:{name}"].grad) for name in "xw"] == given
    assert bp.explain(rec).ok
    inner = [entry for name, entry in rec.items() if "<lambda>" in name and entry.dtype == "float32"]
    assert {str(entry.status) for entry in inner} <= {"opaque", "ok"}


def taken_again():
    """Numbers that come from an iterator, which a second run would move on."""
    with tf.Graph().as_default():
        data = v1.data.Dataset.from_tensor_slices(np.arange(8, dtype="float32")).batch(2)
        x = v1.data.make_one_shot_iterator(data).get_next()
        w = v1.get_variable("w", initializer=0.9)
        loss = tf.reduce_sum((x * w) ** 2)
        train = v1.train.GradientDescentOptimizer(0.01).minimize(loss)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            return [session.run([train, loss])[1] for _ in range(4)]


def test_an_iterator_is_not_moved_on():
    wanted = taken_again()
    with bp.probe() as rec:
        found = taken_again()
    assert found == wanted
    assert rec["/taken_again:w"].status == "opaque"
    assert "OneShotIterator comes before it" in rec["/taken_again:w"].reason


def explained(text, tmp_path, monkeypatch, *words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    head = "import numpy as np\nimport tensorflow as tf\nv1 = tf.compat.v1\n"
    (tmp_path / "train.py").write_text(head + text)
    status, out, err = invoked("explain", *words, "train.py")
    return status, out + err


def test_a_script_with_the_five_calls(tmp_path, monkeypatch):
    body = """
        x = v1.placeholder(tf.float32, (), name="x")
        w = v1.Variable(2.0, name="w")
        b = v1.Variable(1.0, name="b")
        u = x * w
        v = u + b
        a = tf.nn.relu(v)
        asked = [tf.gradients(a, one) for one in (x, w, b, u, v)]
    """
    status, out = explained(built(body, {"x:0": 3.0}) + "print(given)\n", tmp_path, monkeypatch)
    assert status == 0, out
    assert out.splitlines()[0].count("float32(") == 5
    assert out.splitlines()[1:] == ["6 of 6 values with a gradient"]


def test_a_script_with_dropout_fetches_in_the_programs_own_run(tmp_path, monkeypatch):
    text = TRAINED.replace("DROPPED", "h = v1.nn.dropout(h, rate=0.5)").replace("range(3)", "range(1)")
    status, out = explained(text, tmp_path, monkeypatch)
    assert status == 0, out
    assert "all 2 parameters got a gradient" in out


NONE = """
    x = v1.placeholder(tf.float32, (3,), name="x")
    w = v1.get_variable("w", initializer=[1.0, 2.0, 3.0])
    spare = v1.get_variable("spare", initializer=1.0)
    h = x * w
    k = CUT
    loss = tf.reduce_sum(k * 2.0)
    asked = tf.gradients(loss, [w, spare])
    print(asked)
"""


@pytest.mark.parametrize(
    ("cut", "headline", "remedy"),
    [
        (
            "tf.round(h)",
            "the operation Round has no derivative in TensorFlow, so no gradient comes back to 'h'",
            "straight-through",
        ),
        ("tf.stop_gradient(h)", "the operation StopGradient cuts the result off from 'h'", "leave out stop_gradient"),
        ("tf.cast(h > 0, tf.float32)", "the operation Greater is true or false", "sigmoid"),
    ],
)
def test_a_none_out_of_tf_gradients_is_the_first_finding(cut, headline, remedy, tmp_path, monkeypatch):
    body = "with tf.Graph().as_default():\n" + NONE.replace("CUT", cut)
    status, out = explained(body, tmp_path, monkeypatch)
    assert status == 1, out
    assert "[None, None]" in out and "2 of 2 parameters got no gradient" in out
    assert headline in out and remedy in out
    assert "tf.gradients gave None for w" in out
    assert "asked for: train.py:12: asked = tf.gradients(loss, [w, spare])" in out
    assert "tf.gradients gave None for 'spare': 'loss' is not computed from it" in unplaced(out)
    assert "a tape" not in out


def test_what_stop_gradients_holds_is_said(tmp_path):
    body = """
        w = v1.get_variable("w", initializer=2.0)
        h = w * 3.0
        loss = h * h
        asked = tf.gradients(loss, h)
        held = tf.gradients(loss, w, stop_gradients=[h])
    """
    rec, names = block(built(body), tmp_path)
    assert names["held"] == [None]
    (found,) = bp.explain(rec).findings
    assert found.headline == (
        "tf.gradients gave None for 'w': stop_gradients= holds something constant on every way from it to 'loss'"
    )
    assert found.remedy == "leave out of stop_gradients= what lies between 'w' and 'loss'"


def test_what_was_not_asked_for_lacks_nothing(tmp_path):
    body = """
        w = v1.get_variable("w", initializer=2.0)
        h = w * 3.0
        y = tf.sin(h)
        loss = y * y
        asked = tf.gradients(loss, y)
    """
    rec, _ = block(built(body), tmp_path)
    says(rec, statuses={"w": "not_connected", "h": "not_connected", "y": "ok", "loss": "ok"})
    assert rec["h"].reason == (
        "tf.gradients(...) was asked for other values, and did not come by this one on the way to them"
    )
    assert re.sub(r" \(\S+:\d+\)", "", str(bp.explain(rec))) == (
        "2 of 2 values with a gradient\n"
        "  note: not among the values whose gradients the program asked for, nor on the way to these: w, h"
    )


def test_a_session_in_a_later_block(tmp_path):
    with tf.Graph().as_default():
        with bp.probe():
            w = v1.get_variable("w", initializer=2.0)
            y = w * w
            asked = tf.gradients(y, w)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            with bp.probe() as rec:
                w.name  # noqa: B018
                y.name  # noqa: B018
                given = session.run(asked)
    says(rec, grads={"w": 4, "y": 1}, values={"w": 2, "y": 4})
    assert given == [4.0]


def test_a_probe_of_a_graph_inside_a_block_is_no_pass_of_the_program():
    with tf.Graph().as_default(), v1.Session() as session:
        w = v1.get_variable("w", initializer=2.0)
        y = w * w
        session.run(v1.global_variables_initializer())
        with bp.probe() as rec:
            w.name  # noqa: B018
            inner = bp.probe(y, session=session)()
    assert float(inner["w"].grad) == 4
    assert rec["w"].status == "backward_not_run"


def test_partials_of_a_graph_come_from_a_copy(tmp_path):
    program = built(TWO.replace("tf.gradients(second, [w, b, u])", "first"), {"x:0": 3.0})
    head = "import tensorflow as tf\nv1 = tf.compat.v1\n"
    (tmp_path / "train.py").write_text(head + program + "print(graph.version)\n")
    done = prepared.run("tensorflow", "-m", "backprobe", "derive", "train.py", "w", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    plain = prepared.run("tensorflow", "train.py", cwd=tmp_path)
    assert done.stdout.splitlines()[0] == plain.stdout.splitlines()[0]  # as many operations
    assert "= 36" in done.stdout


# tapes


def test_five_calls_of_a_persistent_tape_are_one_gradient():
    with bp.probe() as rec:
        x, w, b = tf.constant(3.0), tf.Variable(2.0), tf.Variable(1.0)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            u = x * w
            v = u + b
            a = tf.nn.relu(v)
        given = [tape.gradient(a, one) for one in (x, w, b, u, v)]
    says(rec, grads=FIVE, values=VALUES)
    assert [float(one) for one in given] == [2, 3, 1, 1, 1]
    assert rec.output_keys == ()


def test_outputs_of_a_tape_are_kept_apart():
    w, b = tf.Variable(2.0), tf.Variable(1.0)
    with bp.probe() as rec:
        with tf.GradientTape(persistent=True) as tape:
            u = w * 3
            first = u * u
            second = tf.sin(u) + b
        one = tape.gradient(first, w)
        two, three = tape.gradient(second, [w, b])
    assert rec.output_keys == ("first", "second")
    assert (rec["w"].grads["first"].numpy(), rec["w"].grads["second"].numpy()) == (one.numpy(), two.numpy())
    assert rec.of("second")["b"].grad.numpy() == three.numpy()
    with pytest.raises(bp.NoGradient, match="each of them has a backward pass of its own"):
        rec["w"].grad  # noqa: B018


def test_cotangents_of_the_program():
    w = tf.Variable([1.0, 2.0])
    with bp.probe() as rec:
        with tf.GradientTape() as tape:
            u = w * 2
            y = u * u
        given = tape.gradient(y, w, output_gradients=tf.constant([1.0, 10.0]))
    assert rec["w"].grad.numpy().tolist() == given.numpy().tolist() == [8, 160]
    assert rec["y"].grad.numpy().tolist() == [1, 10]


def test_a_gradient_penalty_has_both_outputs_and_the_loss_is_meant():
    w, x = tf.Variable([1.0, 2.0]), tf.constant([3.0, 4.0])
    with bp.probe() as rec:
        with tf.GradientTape() as tape:
            with tf.GradientTape() as inner:
                inner.watch(x)
                score = tf.reduce_sum(tf.sin(x * w))
            slope = inner.gradient(score, x)
            loss = score + (tf.norm(slope) - 1.0) ** 2
        given = tape.gradient(loss, w)
    assert rec.output_keys == ("score", "loss")
    assert rec["w"].grad.numpy().tolist() == given.numpy().tolist()
    assert rec["x"].grads["score"].numpy().tolist() == slope.numpy().tolist()


def test_second_derivatives_of_nested_tapes():
    x = tf.Variable(2.0)
    with bp.probe() as rec:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                y = x * x * x
            first = inner.gradient(y, x)
        second = outer.gradient(first, x)
    assert rec.output_keys == ("y", "first")
    assert (rec["x"].grads["y"].numpy(), rec["x"].grads["first"].numpy()) == (first.numpy(), second.numpy()) == (12, 12)


@pytest.mark.parametrize("method", ["jacobian", "batch_jacobian"])
def test_a_jacobian_is_of_the_sum_and_says_so(method):
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    with bp.probe() as rec:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        rows = getattr(tape, method)(y, x)
    summed = rows.numpy().sum(axis=1) if method == "batch_jacobian" else rows.numpy().sum(axis=(0, 1))
    assert rec["x"].grad.numpy().tolist() == summed.tolist() == [[2, 4], [6, 8]]
    assert rec.notes[0].startswith(f"tape.{method} gives a derivative of each element")


def test_a_loop_that_computes_what_it_differentiates_has_its_last_iteration():
    w = tf.Variable(1.0)
    with bp.probe() as rec:
        for _ in range(3):
            with tf.GradientTape() as tape:
                loss = w * w
            w.assign_sub(0.1 * tape.gradient(loss, w))
    assert rec.output_keys == ()
    assert rec["w#2"].grad.numpy() == pytest.approx(1.28)


def test_a_loop_over_outputs_keeps_them_apart():
    w = tf.Variable([1.0, 2.0])
    with bp.probe() as rec:
        with tf.GradientTape(persistent=True) as tape:
            y = w * w
            parts = [y[0], y[1]]
        rows = [tape.gradient(part, w) for part in parts]
    assert rec.output_keys == ("parts.0", "parts.1")
    for key, row in zip(rec.output_keys, rows, strict=True):
        assert rec["w"].grads[key].numpy().tolist() == tf.convert_to_tensor(row).numpy().tolist()


def test_unconnected_zeros_are_zeros_and_the_value_is_not_connected():
    w, spare = tf.Variable(2.0), tf.Variable(1.0)
    with bp.probe() as rec:
        with tf.GradientTape() as tape:
            y = w * w
        given = tape.gradient(y, [w, spare], unconnected_gradients="zero")
    assert [float(one) for one in given] == [4, 0]
    says(rec, grads={"w": 4}, statuses={"spare": "not_connected"})


def test_a_tape_that_watches_nothing_new_leaves_frozen_what_is():
    with bp.probe() as rec:
        x, w = tf.constant(3.0), tf.Variable(2.0)
        with tf.GradientTape() as tape:
            y = x * w
        tape.gradient(y, w)
    says(rec, grads={"w": 3}, statuses={"x": "frozen"})
