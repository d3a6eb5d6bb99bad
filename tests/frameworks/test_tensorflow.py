"""TensorFlow's eager tensors: gradients by name, Variables and their versions, statuses, and nothing left behind."""

import functools
import threading

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context, execute, record

import backprobe as bp
from asked import all_grads, inputs, on, round_trip, says

probe = functools.partial(bp.probe, backend="tensorflow")
probed = functools.partial(on, backend="tensorflow")
CARRIES_NOTHING = "it was computed from differentiated values, but has no gradient history"


def vector(*values):
    return tf.constant(values)


# gradients against a tape's own


def composed(x, w):
    u = x * w
    v = tf.tanh(u) + x
    s = tf.reduce_sum(v * v)
    return s


def test_gradients_are_those_of_a_tape_written_by_hand():
    x, w = vector(1.0, 2.0), vector(0.5, -1.0)
    rec = bp.probe(composed)(x, w)
    with tf.GradientTape() as tape:
        tape.watch([x, w])
        u = x * w
        v = tf.tanh(u) + x
        s = tf.reduce_sum(v * v)
    by_hand = tape.gradient(s, {"x": x, "w": w, "u": u, "v": v, "s": s})
    says(rec, all_grads={name: gradient.numpy().tolist() for name, gradient in by_hand.items()}, names=[*by_hand])
    says(rec, values={"u": u.numpy().tolist()})


def test_gradients_agree_with_finite_differences():
    x, w = np.array([1.0, 2.0]), np.array([0.5, -1.0])
    rec = bp.probe(composed, backend="tensorflow")(x, w)
    assert rec["x"].dtype == "float64"
    for name, at in (("x", 0), ("w", 1)):
        for element in range(2):
            ends = []
            for step in (1e-6, -1e-6):
                given = [x.copy(), w.copy()]
                given[at][element] += step
                ends.append(float(composed(*map(tf.constant, given))))
            assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(rec[name].grad[element].numpy(), rel=1e-7)


@pytest.mark.parametrize("partials", [False, True])
def test_a_container_of_the_callers_comes_back_as_it_was(partials):
    pair = [tf.constant(2.0), tf.constant(3.0)]
    held = list(pair)
    rec = bp.probe(lambda pair: pair[0] * pair[1], partials=partials)(pair)
    says(rec, all_grads={"pair.0": 3, "pair.1": 2, "return": 1})
    assert all(now is before for now, before in zip(pair, held, strict=True))


@probed(2.0, 3, wrt="n").gives(all_statuses={"x": "not_tensor", "n": "ok", "return": "ok"})
def test_wrt_names_what_is_differentiated(x, n):
    return x * n


def test_what_flows_into_what():
    rec = bp.probe(composed)(vector(1.0), vector(2.0))
    assert inputs(rec) == {"u": ["x", "w"], "v": ["x", "u"], "s": ["v"]}
    assert [edge.name for edge in bp.probe(composed, ["x", "v"])(vector(1.0), vector(2.0))["v"].inputs] == ["x"]


@probed(1.4, 3.0).gives(
    inputs={"s": ["w", "rounded"]}, all_statuses={"x": "not_connected", "w": "ok", "rounded": "ok", "s": "ok"}
)
def test_an_operand_without_a_derivative_is_no_edge(x, w):
    rounded = tf.round(x)
    s = rounded * w
    return s


@pytest.mark.supports("`IndexedSlices` are made dense", "TensorFlow and Keras")
def test_a_sparse_gradient_is_dense():
    rec = bp.probe(lambda table: tf.reduce_sum(tf.gather(table, [0, 2, 0])))(tf.ones((3, 2)))
    assert isinstance(rec["table"].grad, tf.Tensor)
    says(rec, grads={"table": [[2, 2], [0, 0], [1, 1]]})


@tf.custom_gradient
def stepped(z):
    return tf.cast(z > 0, tf.float32) + 0.0, lambda upstream: 5 * upstream


@probed(2.0).gives(all_grads={"x": 30, "y": 15, "z": 3, "s": 1}, inputs={"y": ["x"], "z": ["y"], "s": ["z"]})
def test_a_function_with_a_gradient_of_its_own(x):
    y = x * 2
    z = stepped(y)
    s = z * 3
    return s


@pytest.mark.parametrize("partials", [False, True])
def test_a_gradient_inside_the_program_is_differentiated_through(partials):
    def f(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x * x
        g = tape.gradient(y, x)
        return g * g

    rec = probe(f, partials=partials)(2.0)
    says(rec, grads={"g": 24, "x": 288}, agree=True if partials else None)  # (3x²)² = 9x⁴


@probed(2.0).gives(values={"s": 64}, grads={"x": 192})
def test_a_probe_inside_a_probe(x):
    y = x * x
    inner = bp.probe(lambda z: z * y)(y)
    s = inner["z"].grad * inner.result
    return s


@probed(3 + 4j).gives(grads={"z": 6 + 8j}, dtypes={"z": "complex64"})
def test_a_complex_gradient_is_tensorflows(z):
    return tf.math.real(z * tf.math.conj(z))


@probed(np.array(3.0, ml_dtypes.bfloat16)).gives(dtypes={"x": "bfloat16"})
def test_an_array_of_bfloat16(x):
    return x * x


# statuses


def test_every_status_and_its_reason():
    fixed = tf.Variable(2.0, trainable=False)

    def f(x, idle):
        u = x * 2.0
        cut = tf.stop_gradient(u)
        after = cut * 2.0
        whole = tf.cast(u, tf.int32)
        back = tf.cast(whole, tf.float32)
        through = tf.constant(float(u))
        constant = tf.ones(())
        held = fixed
        word = tf.constant("word")
        n = 3
        aside = idle * 2.0
        with record.stop_recording():
            quiet = u * 2.0
        return u * 3.0

    rec = probe(f)(1.0, 1.0)
    assert {name: (str(e.status), e.reason) for name, e in rec.items() if e.status != "ok"} == {
        "idle": ("not_connected", "no path leads from it to the output"),
        "cut": ("detached", CARRIES_NOTHING),
        "after": ("detached", "it was computed from a value that is itself detached"),
        "whole": ("not_float", "its dtype is int32"),
        "back": ("detached", CARRIES_NOTHING),
        "through": ("detached", CARRIES_NOTHING),
        "constant": ("frozen", "nothing recorded that it was computed from requires a gradient"),
        "held": ("frozen", "it is a Variable with trainable=False"),
        "word": ("not_float", "its dtype is string"),
        "n": ("not_tensor", "it is the Python number 3"),
        "aside": ("not_connected", "no path leads from it to the output"),
        "quiet": ("no_grad", "it was computed from differentiated values while their tape was stopped"),
    }


def test_what_only_another_tape_follows_is_frozen():
    outside = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(outside)
        doubled = outside * 2

        def f(x):
            other = doubled * 1.0
            return x * other

        says(probe(f)(2.0), statuses={"other": "frozen"})


# Variables


def test_a_variable_is_a_value_and_needs_no_argument():
    w = tf.Variable([1.0, 2.0])

    def f(x):
        a = w
        return tf.reduce_sum(a * x)

    rec = bp.probe(f)(vector(3.0, 4.0))
    says(rec, all_grads={"x": [1, 2], "a": [3, 4], "return": 1}, values={"a": [1, 2]}, dtypes={"a": "float32"})
    assert rec["a"].shape == (2,)
    w.assign([7.0, 7.0])
    says(rec, values={"a": [1, 2]})  # as it was


def written(x):
    w = tf.Variable([1.0, 2.0])
    y = w * x
    w.assign_add([10.0, 10.0])
    z = w * y
    w.assign(z)
    s = tf.reduce_sum(z + w)
    return s


@pytest.mark.supports(
    "`tf.Variable`: `w.assign(…)` makes a version with its own value and gradient", "TensorFlow and Keras"
)
def test_a_write_to_a_variable_makes_a_version_with_its_own_value_and_gradient():
    rec = probe(written)(2.0)
    assert [name for name in rec if name[0] == "w"] == ["w#0", "w#1", "w#2"]
    both = {
        "w#0": ([1, 2], [22, 24]),  # through y = w#0 · x and z = w#1 · y
        "w#1": ([11, 12], [2, 4]),
        "w#2": ([22, 48], [1, 1]),  # nothing flows back through a write
    }
    says(rec, both=both, inputs={"y": ["x", "w#0"], "z": ["y", "w#1"], "s": ["z", "w#2"]})
    says(probe(written, partials=True)(2.0), all_grads=all_grads(rec), agree=True)


def test_a_variable_that_an_operation_reads_itself():
    w = tf.Variable([1.0, 2.0])

    def f(x):
        held = w
        a = tf.sin(held)  # TensorFlow reads it in C++, and tells no callback
        b = x * held
        c = tf.concat([a, held], 0)
        held.assign_add([1.0, 1.0])
        d = tf.reduce_sum(b * held)
        return d + tf.reduce_sum(c)

    rec = bp.probe(f)(vector(3.0, 4.0))
    assert inputs(rec) == {
        "a": ["held#0"],
        "b": ["x", "held#0"],
        "c": ["held#0", "a"],
        "d": ["b", "held#1"],
        "return": ["c", "d"],
    }
    assert rec["held#0"].grad.numpy() == pytest.approx([3 * 2 + 1 + np.cos(1.0), 4 * 3 + 1 + np.cos(2.0)])
    assert rec["held#1"].grad.numpy().tolist() == [3, 8]
    says(probe(lambda v: tf.reduce_sum(tf.sin(v)))(w), grads={"return": 1})


def test_a_variable_that_only_a_compiled_function_reads():
    w = tf.Variable(2.0)
    compiled = tf.function(lambda x: x * w).get_concrete_function(tf.TensorSpec((), tf.float32))

    def f(x):
        y = compiled(tf.constant(3.0))
        return y + x

    says(bp.probe(f)(1.0), all_grads={"x": 1, "y": 1, "return": 1})


@probed(1.0).gives(values={"w#0": [1, 2, 3], "w#1": [9, 2, 3], "w#2": [9, 5, 3]}, grads={"w#1": [9, 10, 9]})
def test_scatters_and_strided_assignments_are_writes(x):
    w = tf.Variable([1.0, 2.0, 3.0])
    y = w * x
    w.scatter_update(tf.IndexedSlices([9.0], [0]))
    z = w * y
    w[1].assign(5.0)
    return tf.reduce_sum(z * w)


def test_a_variable_that_a_compiled_function_wrote_has_a_version():
    held = tf.Variable(2.0)
    traced = tf.function(lambda: held.assign_add(1.0), autograph=False).get_concrete_function()

    def f(x):
        w = held
        y = w * x
        traced()
        z = w * y
        return z

    says(probe(f)(3.0), values={"w#0": 2, "w#1": 3}, grads={"w#0": 9, "w#1": 6, "y": 3})


def test_a_variable_that_a_compiled_function_read_in_two_versions_has_one_gradient_together():
    held = tf.Variable(2.0)
    traced = tf.function(lambda x: held * x, autograph=False).get_concrete_function(tf.TensorSpec(()))

    def f(x):
        w = held
        y = traced(x)
        held.assign_add(1.0)
        z = traced(y)
        return z + 0.0 * w

    rec = probe(f)(3.0)
    says(rec, statuses={"w#0": "opaque", "y": "ok"}, grads={"y": 3})
    assert "the Variable was modified, and compiled code or a gather read it" in rec["w#0"].reason


TABLE = tf.Variable([[1.0, 2.0], [3.0, 4.0]])


@probed(2.0).gives(grads={"t": [[0, 0], [2, 2]]}, inputs={"row": ["t"], "return": ["x", "row"]})
def test_a_variable_that_is_gathered_from_has_its_whole_gradient(x):
    t = TABLE
    row = tf.gather(t, [1])
    return tf.reduce_sum(row * x)


# control flow and functions that call functions


@pytest.mark.supports(
    "`tf.cond`, `tf.while_loop`, `tf.map_fn`, `tf.scan`: your functions are followed", "TensorFlow and Keras"
)
def test_functions_given_to_tensorflow_are_followed():
    def f(x):
        y = tf.cond(x > 0, lambda: x * 2, lambda: x)

        def body(i, a):
            b = a * x
            return i + 1, b

        _, r = tf.while_loop(lambda i, a: i < 3, body, [0, y])

        def square(e):
            q = e * e
            return q

        m = tf.map_fn(square, tf.stack([r, x]))
        return tf.foldl(lambda total, e: total + e, m)

    rec = probe(f)(2.0)
    names = ["/body#0:b", "/body#2:b", "/square#0:q", "/square#1:q"]
    assert [rec[name].value.numpy() for name in names] == [8, 32, 1024, 4]
    with tf.GradientTape() as tape:
        x = tf.constant(2.0)
        tape.watch(x)
        s = f(x)
    assert rec["x"].grad.numpy() == tape.gradient(s, x).numpy()
    assert rec["/body#0:b"].grad.numpy() == 2 * 32 * 4  # r = b·x² = 32, d(r²)/db = 2·r·x²


@probed(2.0).gives(all_grads={"x#0": 32, "x#1": 8, "x#2": 1})
def test_python_branches_and_loops_on_tensors(x):
    for _ in tf.range(2):
        if x > 1:
            x = x * x
    return x


# tf.function


@tf.function
def compiled(z):
    q = z * z
    return q + 1.0


@pytest.mark.supports("`tf.function`, also if it was traced and cached before", "TensorFlow and Keras")
def test_a_function_that_was_traced_and_cached_has_its_names():
    compiled(tf.constant(2.0))
    assert compiled.experimental_get_tracing_count() == 1

    def f(x):
        y = compiled(x)
        return y * 3.0

    for partials in (False, True):
        says(probe(f, partials=partials)(2.0), all_grads={"x": 12, "/compiled:q": 3, "y": 3, "return": 1})
    says(probe(compiled)(2.0), all_grads={"z": 4, "q": 1, "return": 1})
    assert compiled.experimental_get_tracing_count() == 1  # nothing was traced again


@probed(1.0).gives(all_grads={"x": 8, "/compiled#0:q": 4, "h": 4, "/compiled#1:q": 1, "return": 1})
@tf.function
def test_compiled_functions_that_call_each_other(x):
    h = compiled(x)
    return compiled(h)


class Scaled:
    def __init__(self):
        self.by = tf.Variable(3.0)

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
    def __call__(self, x):
        p = x * self.by
        return p

    @tf.function
    def twice(self, x):
        p = self(x)
        return p + p


@pytest.mark.parametrize("traced", [False, True])
def test_compiled_methods(traced):
    scaled = Scaled()
    if traced:
        scaled.twice(tf.constant(1.0))
    says(probe(scaled.twice)(2.0), grads={"x": 6})
    says(probe(lambda x: scaled.twice(x))(2.0), grads={"/twice:p": 2})
    says(probe(scaled)(2.0), all_grads={"x": 3, "p": 1})


traced = tf.function(lambda z: z * z).get_concrete_function(tf.TensorSpec([], tf.float32))


@probed(3.0).gives(all_grads={"x": 24, "y": 12, "z": 1, "return": 1}, inputs={"y": ["x"], "z": ["y"], "return": ["z"]})
def test_a_compiled_function_that_is_not_followed_is_one_operation(x):
    y = x * 2.0
    z = traced(y)
    return z * 1.0


# nothing is left behind, and nothing is changed


def state():
    own = context.context()
    return execute.execute, record.record_operation, list(own.op_callbacks), own.executing_eagerly()


def test_nothing_is_left_behind():
    before = state()
    probe(composed, partials=True)(1.0, 2.0)
    assert state() == before

    def broken(x):
        u = x * 2.0
        raise ValueError("of the program")

    with pytest.raises(ValueError, match="of the program") as caught:
        probe(broken)(1.0)
    assert state() == before
    assert "the last name bound was 'u'" in caught.value.__notes__[0]


def test_a_probe_in_another_thread_keeps_hearing_when_this_one_ends():
    inside, go = threading.Event(), threading.Event()
    found = []

    def waiting(x):
        u = x * 2.0
        inside.set()
        go.wait(20)
        v = tf.gather(u, [0])  # runs in TensorFlow's slow way
        return tf.reduce_sum(v)

    thread = threading.Thread(target=lambda: found.append(bp.probe(waiting)(vector(1.0, 2.0))))
    before = state()
    thread.start()
    inside.wait(20)
    probe(composed)(1.0, 2.0)
    go.set()
    thread.join(20)
    assert inputs(found[0]) == {"u": ["x"], "v": ["u"], "return": ["v"]}
    assert state() == before


def noisy(x):
    h = x * tf.random.uniform((64,)) + tf.random.stateless_normal((64,), (1, 2))
    h = tf.nn.dropout(h, 0.4)
    return tf.reduce_sum(tf.sin(h))


def test_the_probe_changes_no_result_and_no_random_state():
    x = tf.reshape(tf.linspace(-1.0, 1.0, 64), (64,))

    def run(through):
        tf.random.set_seed(3)
        generator = tf.random.Generator.from_seed(5)
        result = through(lambda x: noisy(x) + tf.reduce_sum(generator.normal((4,))))(x)
        return result.numpy().tobytes(), generator.state.numpy().tolist(), tf.random.uniform((4,)).numpy().tolist()

    bare = run(lambda f: f)
    assert run(lambda f: lambda x: bp.probe(f)(x).result) == bare
    assert run(lambda f: lambda x: bp.probe(f, "**:*()")(x).result) == bare
    assert run(lambda f: lambda x: bp.probe(f, partials=True)(x).result) == bare


def test_without_partials_the_program_sees_its_own_tensors():
    seen = []

    def f(x):
        u = x * 2.0
        seen.append(u)
        v = u
        seen.append(v)
        return u + 1.0

    rec = probe(f)(1.0)
    assert seen[0] is seen[1] is rec["u"].value


# options and errors


def test_a_probe_where_a_graph_is_built_is_refused():
    @functools.partial(tf.function, autograph=False)
    def traced(x):
        return bp.probe(composed)(x, x).result

    with pytest.raises(bp.Unsupported, match="^a function cannot be probed while TensorFlow builds a graph"):
        traced(tf.constant(1.0))


def test_a_symbol_in_the_place_of_a_value_is_refused():
    with tf.Graph().as_default():
        symbol = tf.compat.v1.placeholder(tf.float32, name="symbol")
    with pytest.raises(bp.Unsupported, match="^a tensor of a graph has no value here") as caught:
        bp.probe(composed)(symbol, symbol)
    assert "'symbol:0'" in caught.value.found


def test_an_operation_without_derivative_is_explained():
    with pytest.raises(LookupError) as caught:
        bp.probe(lambda x: tf.abs(tf.linalg.logm(x)[0, 0]))(tf.eye(2, dtype=tf.complex64))
    assert any("has no derivative in TensorFlow" in note for note in caught.value.__notes__)


@on(vector(1.0, 2.0, 3.0)).gives(names=["x", "y", "return"], grads={"x": [8, 40, 40]})
def test_a_ragged_tensor_has_no_entry_and_gradients_pass_through_it(x):
    ragged = tf.RaggedTensor.from_row_lengths(x, [1, 2])
    y = tf.reduce_sum(ragged * 2.0, axis=1)
    return tf.reduce_sum(y * y)


# saving and showing


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"])
def test_a_recording_is_saved_and_loaded_bit_by_bit(tmp_path, dtype):
    x = tf.cast(vector(1.0, -2.5, 3.0), dtype)
    rec = bp.probe(lambda x: x * x, cotangent=np.ones(3))(x)
    rec.save(tmp_path / "rec")
    loaded, arrays = bp.load(tmp_path / "rec"), bp.load(tmp_path / "rec", to="numpy")
    assert loaded["x"].grad.dtype == dtype
    for name, entry in rec.items():
        assert loaded[name].value.numpy().tobytes() == entry.value.numpy().tobytes()
        assert loaded[name].grad.numpy().tobytes() == entry.grad.numpy().tobytes()
        assert arrays[name].grad.astype("complex128").tolist() == entry.grad.numpy().astype("complex128").tolist()


def test_a_variable_and_its_status_are_saved(tmp_path):
    rec = probe(written)(2.0)
    assert str(round_trip(rec, tmp_path)) == str(rec)


def test_a_string_cannot_be_saved_and_is_shown(tmp_path):
    def f(x):
        word = tf.constant("word")
        return x * 2.0

    rec = probe(f)(1.0)
    assert "b'word'" in str(rec)
    with pytest.raises(bp.NotSaved, match="because of 'word': a string tensor cannot be saved"):
        rec.save(tmp_path / "rec")


def test_a_variable_that_is_made_in_the_run_is_not_called_modified():
    def f(x):
        table = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
        row = tf.gather(table, [1])
        return tf.reduce_sum(row * x)

    rec = probe(f)(2.0)
    says(rec, grads={"table": [[0, 0], [2, 2]]}, statuses={"table": "ok"})


def test_a_variable_that_is_made_in_the_run_and_then_written_is():
    def f(x):
        table = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
        table.assign_add([[1.0, 1.0], [1.0, 1.0]])
        row = tf.gather(table, [1])
        return tf.reduce_sum(row * x)

    rec = probe(f)(2.0)
    assert "it was modified later" in rec["table#0"].reason
