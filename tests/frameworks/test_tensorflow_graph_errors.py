"""Errors for graphs, sessions and feeds that cannot be probed."""

import numpy as np
import pytest
import tensorflow as tf
from graphs import fed, graph, probed, s3, v1

import backprobe as bp
from asked import message


def elsewhere(build):
    """What ``build`` makes, in a graph without a session."""
    with tf.Graph().as_default():
        return build()


def test_a_tensor_without_a_session():
    assert message(bp.BadOption, lambda: bp.probe(elsewhere(s3))({"x": 3.0})) == (
        "a tensor of a graph needs a session to run it\n"
        "  asked: bp.probe(a)\n"
        "  found: no session, and no default session\n"
        "  next:  bp.probe(a, session=s)({x: 3.0})"
    )


def test_a_session_of_another_graph():
    a = elsewhere(s3)
    with graph(s3) as (_, session):
        assert message(bp.BadOption, lambda: bp.probe(a, session=session)({"x": 3.0})) == (
            "the session runs another graph than the tensor's\n"
            "  asked: bp.probe(a, session=s)\n"
            "  found: the session given\n"
            "  next:  tf.compat.v1.Session(graph=tensor.graph)"
        )


def with_s3(call):
    """Calls with the tensor of S3 and its session."""
    with graph(s3) as (a, session):
        return call(a, session)


FIRST_LINES = {
    "tensors of two graphs": (
        lambda a, session: bp.probe([elsewhere(s3), a], session=session)({"x": 3.0}),
        bp.BadOption,
        "the target holds tensors of several graphs",
    ),
    "a session that is none": (
        lambda a, _: bp.probe(a, session="s")({"x": 3.0}),
        bp.BadOption,
        "session is a tf.compat.v1.Session",
    ),
    "a number": (lambda *_: bp.probe(7)({"x": 3.0}), bp.BadOption, "an int is neither a function nor a model"),
    "a fed tensor of another graph": (
        lambda a, session: bp.probe(a, session=session)({elsewhere(fed): 3.0}),
        bp.BadOption,
        "a tensor of another graph cannot be fed",
    ),
    "arguments that are no feed_dict": (
        lambda a, session: bp.probe(a, session=session)(x=3.0),
        bp.BadOption,
        "the probe of a graph takes a feed_dict, as Session.run does",
    ),
    "an output that no gradient reaches": (
        lambda *_: probed(lambda: tf.stop_gradient(fed() * 2.0), {"x": 3.0}),
        bp.NothingToDifferentiate,
        "the output does not depend on any differentiated value",
    ),
    "an output of integers": (
        lambda *_: probed(lambda: tf.cast(fed(), tf.int32), {"x": 3.0}),
        bp.BadOutput,
        "the return value holds no floating tensor",
    ),
    "wrt": (
        lambda *_: probed(s3, {"x": 3.0}, wrt="x"),
        bp.BadOption,
        "wrt is for functions: in a graph every value is differentiated",
    ),
    "strategy": (
        lambda *_: probed(s3, {"x": 3.0}, strategy="hooks"),
        bp.StrategyRefused,
        "the strategy 'hooks' is PyTorch's",
    ),
    "create_graph": (
        lambda *_: probed(s3, {"x": 3.0}, create_graph=True),
        bp.Unsupported,
        "gradients of TensorFlow cannot be differentiated again",
    ),
    "cotangent": (lambda *_: probed(s3, {"x": 3.0}, cotangent="one"), bp.BadOutput, "the cotangent is not a tensor"),
}


@pytest.mark.parametrize("call, kind, first", FIRST_LINES.values(), ids=FIRST_LINES)
def test_what_is_refused(call, kind, first):
    assert message(kind, lambda: with_s3(call)).splitlines()[0] == first


def test_a_session_for_what_is_no_graph():
    with graph(s3) as (_, session):
        assert message(bp.BadOption, lambda: bp.probe(abs, session=session)(3.0)) == (
            "session runs the tensors of a TensorFlow graph\n"
            "  asked: bp.probe(abs, session=...)\n"
            "  found: a function\n"
            "  next:  bp.probe(abs)"
        )


def test_an_eager_tensor():
    assert message(bp.BadOption, lambda: bp.probe(tf.constant(3.0))()) == (
        "an eager tensor has no history to differentiate\n"
        "  asked: bp.probe(tensor)\n"
        "  found: an eager tensor of shape ()\n"
        "  why:   it holds numbers and has no graph\n"
        "  next:  bp.probe(f)(x), with the function f that computes it"
    )


def test_a_variable_and_an_operation():
    with graph(s3) as (a, session):
        text = message(bp.BadOption, lambda: bp.probe(a.op, session=session)({"x": 3.0}))
        assert text.splitlines()[0] == "a is an operation, not a tensor"
        assert text.splitlines()[-1] == "  next:  bp.probe(a.outputs[0], session=s)"
        variable = v1.global_variables()[0]
        text = message(bp.BadOption, lambda: bp.probe(variable, session=session)({"x": 3.0}))
        assert text.splitlines()[0] == "the variable w:0 is not computed from anything"


def test_a_tensor_of_a_function_that_is_being_traced():
    traced = tf.function(lambda x: bp.probe(x * x)(), autograph=False)
    assert message(bp.Unsupported, lambda: traced(tf.constant(3.0))) == (
        "a tensor inside a tf.function cannot be probed from within it\n"
        "  asked: bp.probe(mul)\n"
        "  found: mul:0 of a function's graph\n"
        "  why:   its function is being traced, and runs only later\n"
        "  next:  bp.probe(f)(x), or bp.probe(f.get_concrete_function(x))(x)"
    )


def test_the_function_form_where_a_graph_is_built():
    def double(x):
        y = x * 2.0
        return y

    with tf.Graph().as_default():
        text = message(bp.Unsupported, lambda: bp.probe(double, backend="tensorflow")(3.0))
        assert text.splitlines()[0] == "a function cannot be probed while TensorFlow builds a graph"
        symbolic = fed()
        text = message(bp.Unsupported, lambda: bp.probe(double)(symbolic))
    assert "bp.probe(tensor, session=s)" in text


@pytest.mark.parametrize(
    "feeds, first",
    [
        ([3.0], "a feed_dict is a dict, not a list"),
        (3.0, "a feed_dict is a dict, not a float"),
        ({"y": 3.0}, "the graph has no tensor 'y' to feed"),
        ({7: 3.0}, "int cannot be fed"),
    ],
)
def test_a_feed_dict_that_names_nothing(feeds, first):
    with pytest.raises(bp.BadOption) as caught:
        probed(s3, feeds)
    assert (caught.value.headline, caught.value.found) == (first, "placeholders: x")
    assert "'x': ..." in caught.value.next


def test_a_placeholder_that_is_not_fed():
    with pytest.raises(tf.errors.InvalidArgumentError, match="You must feed a value") as caught:
        probed(s3)
    assert caught.value.__notes__ == ["backprobe: raised while running a under a probe"]


def test_an_operation_without_a_gradient_is_named_by_tensorflow_itself():
    def build():
        return tf.reduce_sum(tf.image.resize(fed(shape=(1, 4, 4, 1)), (2, 2), "area"))

    with pytest.raises(LookupError, match="No gradient defined for operation'resize/ResizeArea'") as caught:
        probed(build, {"x": np.zeros((1, 4, 4, 1))})
    assert caught.value.__notes__ == ["backprobe: raised while running Sum under a probe"]


def test_a_pattern_that_matches_nothing():
    text = message(bp.NothingMatched, lambda: probed(s3, {"x": 3.0}, select="vv"))
    assert text.splitlines()[0] == "the pattern 'vv' matches nothing in the graph of a"
    assert text.splitlines()[-1] == "  next:  bp.probe(a, 'v')"
