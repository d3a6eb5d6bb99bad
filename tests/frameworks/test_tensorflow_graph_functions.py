"""Concrete functions and the signatures of SavedModels, by the names of their graphs."""

import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf

import backprobe as bp
from asked import all_grads, round_trip, says
from backprobe.backends.tensorflow.graph_definition import renamed


class Toy(tf.Module):
    """The program of S1 with variables, in a function of its own that another calls."""

    def __init__(self):
        super().__init__()
        self.w, self.b = tf.Variable(2.0, name="w"), tf.Variable(1.0, name="b")

    @tf.function
    def inner(self, x):
        u = tf.multiply(x, self.w, name="u")
        return tf.add(u, self.b, name="v")

    @tf.function(input_signature=[tf.TensorSpec((), tf.float32, name="x")])
    def outer(self, x):
        return {"a": tf.nn.relu(self.inner(x), name="a"), "x": x * 5.0}


def concrete(function, *specs):
    """The function, traced for arguments like these."""
    return tf.function(function).get_concrete_function(*specs)


SCALAR = tf.TensorSpec(())


@pytest.fixture
def toy():
    return Toy()


@pytest.fixture
def loaded(toy, tmp_path):
    tf.saved_model.save(toy, str(tmp_path / "model"))
    return tf.saved_model.load(str(tmp_path / "model"))


@pytest.mark.supports("`ConcreteFunction`", "TensorFlow and Keras")
def test_a_concrete_function_has_the_names_of_its_graph_and_of_its_variables(toy):
    rec = bp.probe(toy.inner.get_concrete_function(SCALAR))(3.0)
    says(rec, all_grads={"x": 2.0, "w": 3.0, "b": 1.0, "u": 1.0, "v": 1.0, "Identity": 1.0}, values={"u": 6}, result=7)
    assert rec["u"].source.text == 'u = tf.multiply(x, self.w, name="u")'


def test_functions_that_it_calls_are_seen_into(toy):
    rec = bp.probe(toy.outer.get_concrete_function(), of="a", partials=True)(x=3.0)
    says(rec, grads={"x": 2.0, "w": 3.0, "b": 1.0, "`StatefulPartitionedCall/u`": 1.0}, agree=True, notes=())
    assert rec["StatefulPartitionedCall/u"].partials.keys() == {"x", "w"}
    assert rec.result["a"].numpy() == 7.0


@pytest.mark.supports("signatures of a SavedModel", "TensorFlow and Keras")
def test_a_signature_of_a_saved_model_has_the_names_of_the_function_that_it_stands_for(loaded):
    signature = loaded.signatures["serving_default"]
    rec = bp.probe(signature, of="a")(x=tf.constant(3.0))
    says(rec, grads={"x": 2.0, "w": 3.0, "b": 1.0, "a": 1.0}, values={"StatefulPartitionedCall/u": 6.0})
    says(rec, outputs=["Identity"])
    assert rec.result["x"].numpy() == 15.0
    says(bp.probe(signature, "w", of="a")(3.0), all_grads={"w": 3.0, "Identity": 1.0})


def test_a_recording_of_a_function_is_saved_and_loaded(loaded, tmp_path):
    rec = bp.probe(loaded.signatures["serving_default"], of="a")(3.0)
    assert str(round_trip(rec, tmp_path)) == str(rec)
    assert bp.load(tmp_path / "rec", to="numpy")["w"].grad == 3.0


def control_flow(x, w):
    for _ in tf.range(3):
        x = x * w
    if x > 1.0:
        x = tf.sin(x)
    return x


def test_a_loop_and_a_branch_are_one_operation_each_and_the_notes_say_so():
    rec = bp.probe(concrete(control_flow, SCALAR, SCALAR), partials=True)(1.0, 2.0)
    says(rec, grads={"x": pytest.approx(8 * np.cos(8.0)), "w": pytest.approx(12 * np.cos(8.0))}, agree=True)
    assert [note.split(":")[0] for note in rec.notes] == [
        "cond is one operation, a branch",
        "while is one operation, a loop",
    ]


def test_the_users_own_gradients_of_a_loop_are_as_before_a_probe():
    function = concrete(control_flow, SCALAR, SCALAR)
    given = (tf.constant(1.0), tf.constant(2.0))

    def own():
        with tf.GradientTape() as tape:
            tape.watch(given)
            y = function(*given)
        return [gradient.numpy() for gradient in tape.gradient(y, given)]

    before = all_grads(bp.probe(function)(*given))
    first = own()
    assert all_grads(bp.probe(function)(*given)) == before
    assert own() == first == [before["x"], before["w"]]


def test_values_and_gradients_are_of_the_same_run_of_a_dropout():
    function = concrete(lambda x: tf.reduce_sum(tf.nn.dropout(x, 0.5, name="drop")), tf.TensorSpec((64,)))
    rec = bp.probe(function)(tf.ones(64))
    kept = rec["drop/SelectV2"].value.numpy()
    says(rec, grads={"x": kept.tolist()}, result=kept.sum())


def test_what_a_function_writes_is_written_once():
    count = tf.Variable(0.0, name="count")

    def step(x):
        count.assign_add(1.0)
        return x * count

    rec = bp.probe(concrete(step, SCALAR))(3.0)
    assert count.numpy() == 1.0
    says(rec, statuses={"count": "opaque"}, grads={"mul/ReadVariableOp": 3.0})

    def beside(x):
        count.assign_add(1.0)
        return x * 2.0

    bp.probe(concrete(beside, SCALAR))(3.0)  # the output does not need it
    assert count.numpy() == 2.0


def test_a_signature_writes_as_it_does_where_it_is_called(tmp_path):
    class Counting(tf.Module):
        def __init__(self):
            super().__init__()
            self.count = tf.Variable(0.0, name="count")

        @tf.function(input_signature=[tf.TensorSpec((), name="x")])
        def __call__(self, x):
            self.count.assign_add(1.0)
            return x * 2.0

    tf.saved_model.save(Counting(), str(tmp_path / "model"))
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    rec = bp.probe(loaded.signatures["serving_default"], "**")(3.0)
    assert loaded.count.numpy() == 1.0
    assert rec["count"].status == "opaque"


def test_arguments_in_containers_and_constants():
    def f(x, pair, scale=2.0):
        return x * pair[0] * pair[1]["k"] * scale

    rec = bp.probe(concrete(f, SCALAR, (SCALAR, {"k": SCALAR})))(3.0, (5.0, {"k": 7.0}))
    says(rec, result=210.0, grads={"x": 70.0})


def test_variables_of_the_same_name_are_told_apart():
    first, second = tf.Variable(2.0), tf.Variable(5.0)
    rec = bp.probe(concrete(lambda x: x * first * second, SCALAR))(3.0)
    says(rec, grads={"Variable#0": 15.0, "Variable#1": 6.0})
    with pytest.raises(bp.AmbiguousName):
        rec["Variable"]


def test_a_custom_gradient_is_followed():
    @tf.custom_gradient
    def tenfold(x):
        return x * x, lambda upstream: upstream * 10.0

    rec = bp.probe(concrete(lambda x: tenfold(x) * 1.0, SCALAR))(3.0)
    left_out = "a custom gradient on the way to the output leaves it out"
    says(rec, grads={"x": 10.0}, reasons={"mul": left_out})


def test_a_function_that_xla_compiles_is_refused():
    inner = tf.function(lambda z: z * z, jit_compile=True)
    with pytest.raises(bp.Unsupported) as caught:
        bp.probe(concrete(lambda x: tf.sin(inner(x)), SCALAR))(3.0)
    assert caught.value.found == "PartitionedCall, made with jit_compile=True"


def test_what_returns_a_tensor_that_is_no_scalar_needs_a_cotangent():
    function = concrete(tf.sin, tf.TensorSpec((None,)))
    says(bp.probe(function, cotangent=[1.0, 0.0])(tf.zeros(2)), grads={"x": [1.0, 0.0]})
    with pytest.raises(bp.BadOutput, match="the output is not a scalar"):
        bp.probe(function)(tf.zeros(2))


@pytest.mark.parametrize(
    "args, kwargs, why",
    [
        ((), {}, "x is missing"),
        ((1.0, 2.0), {}, "it takes x"),
        ((), {"y": 1.0}, "x is missing"),
        ((1.0,), {"y": 1.0}, "y is not an argument of it"),
    ],
)
def test_arguments_that_the_function_does_not_take(toy, args, kwargs, why):
    with pytest.raises(bp.BadOption) as caught:
        bp.probe(toy.outer.get_concrete_function(), of="a")(*args, **kwargs)
    assert caught.value.headline == f"outer cannot be called with these arguments: {why}"
    assert caught.value.found == "x: float32 ()"


def test_a_session_is_not_for_a_function(toy):
    with pytest.raises(bp.BadOption, match="a concrete function runs by itself"):
        bp.probe(toy.outer.get_concrete_function(), session=object())(3.0)


def test_the_functions_of_a_graph_have_new_names_wherever_they_are_called():
    definition = tf.compat.v1.GraphDef()
    definition.library.function.add().signature.name = "f"
    definition.library.function.add().signature.name = "g"
    definition.library.gradient.add(function_name="f", gradient_func="g")
    definition.node.add(op="f")
    definition.node.add(op="While").attr["body"].func.name = "g"
    definition.library.function[0].node_def.add(op="Case").attr["branches"].list.func.add().name = "g"
    renamed(definition)
    f, g = (function.signature.name for function in definition.library.function)
    assert {f.split("_")[-1], g.split("_")[-1]} == {"f", "g"}
    assert (definition.library.gradient[0].function_name, definition.library.gradient[0].gradient_func) == (f, g)
    assert (definition.node[0].op, definition.node[1].attr["body"].func.name) == (f, g)
    assert definition.library.function[0].node_def[0].attr["branches"].list.func[0].name == g


def test_keywords_are_paired_by_name():
    """Its inputs are in the order of the names of its keywords; those of its signature are in another."""

    @tf.function
    def f(z, *, q, b):
        return z + 10 * q + 100 * b

    rec = bp.probe(f.get_concrete_function(SCALAR, q=SCALAR, b=SCALAR))(1.0, q=2.0, b=3.0)
    says(rec, result=321, grads={"z": 1, "q": 10, "b": 100})


def test_nothing_is_left_behind(toy):
    function = toy.outer.get_concrete_function()
    before = len(function.graph.get_operations())
    rec = bp.probe(function, of="a")(3.0)
    held = weakref.ref(rec["StatefulPartitionedCall/u"])
    assert len(function.graph.get_operations()) == before
    del rec
    gc.collect()
    assert held() is None
    assert not [held for held in gc.get_objects() if type(held).__name__ in ("FunctionProgram", "WrappedFunction")]
