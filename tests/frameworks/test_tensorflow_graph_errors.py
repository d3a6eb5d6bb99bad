"""What is said of graphs, sessions and feeds that cannot be probed."""

import numpy as np
import pytest
import tensorflow as tf
from graphs import fed, graph, s3, v1

import backprobe as bp
from asked import message


def refused(kind, call):
    return message(kind, lambda: call())


def test_a_tensor_without_a_session():
    with tf.Graph().as_default():
        a = s3()
    assert refused(bp.BadOption, lambda: bp.probe(a)({"x": 3.0})) == (
        "a tensor of a graph needs a session to run it\n"
        "  asked: bp.probe(a)\n"
        "  found: no session, and no default session\n"
        "  next:  bp.probe(a, session=s)({x: 3.0})"
    )


def test_a_session_of_another_graph():
    with tf.Graph().as_default():
        a = s3()
    with graph(s3) as (_, session):
        assert refused(bp.BadOption, lambda: bp.probe(a, session=session)({"x": 3.0})) == (
            "the session runs another graph than the tensor's\n"
            "  asked: bp.probe(a, session=s)\n"
            "  found: the session given\n"
            "  next:  tf.compat.v1.Session(graph=tensor.graph)"
        )


def test_tensors_of_two_graphs():
    with tf.Graph().as_default():
        a = s3()
    with graph(s3) as (other, session):
        text = refused(bp.BadOption, lambda: bp.probe([a, other], session=session)({"x": 3.0}))
    assert text.startswith("the target holds tensors of several graphs\n")


def test_a_session_that_is_none():
    with graph(s3) as (a, _):
        text = refused(bp.BadOption, lambda: bp.probe(a, session="s")({"x": 3.0}))
    assert text.startswith("session is a tf.compat.v1.Session, not str\n")


def test_a_session_for_what_is_no_graph():
    with graph(s3) as (_, session):
        text = refused(bp.BadOption, lambda: bp.probe(abs, session=session)(3.0))
    assert text == (
        "session runs the tensors of a TensorFlow graph\n"
        "  asked: bp.probe(abs, session=...)\n"
        "  found: a target of type builtin_function_or_method\n"
        "  next:  bp.probe(abs)"
    )


def test_an_eager_tensor():
    assert refused(bp.BadOption, lambda: bp.probe(tf.constant(3.0))()) == (
        "an eager tensor has no history to differentiate\n"
        "  asked: bp.probe(tensor)\n"
        "  found: an eager tensor of shape ()\n"
        "  why:   it holds numbers and has no graph\n"
        "  next:  bp.probe(f)(x), with the function f that computes it"
    )


def test_a_variable_and_an_operation():
    with graph(s3) as (a, session):
        text = refused(bp.BadOption, lambda: bp.probe(a.op, session=session)({"x": 3.0}))
        assert text.splitlines()[0] == "a is an operation, not a tensor"
        assert text.splitlines()[-1] == "  next:  bp.probe(a.outputs[0], session=s)"
        variable = v1.global_variables()[0]
        text = refused(bp.BadOption, lambda: bp.probe(variable, session=session)({"x": 3.0}))
        assert text.splitlines()[0] == "the variable w:0 is not computed from anything"


def test_a_number():
    assert refused(bp.BadOption, lambda: bp.probe(7)({"x": 3.0})).startswith("int is neither a function nor a model\n")


def test_a_tensor_of_a_function_that_is_being_traced():
    traced = tf.function(lambda x: bp.probe(x * x)(), autograph=False)
    assert refused(bp.Unsupported, lambda: traced(tf.constant(3.0))) == (
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
        text = refused(bp.Unsupported, lambda: bp.probe(double, backend="tensorflow")(3.0))
        assert text.splitlines()[0] == "a function cannot be probed while TensorFlow builds a graph"
        symbolic = fed()
        text = refused(bp.Unsupported, lambda: bp.probe(double)(symbolic))
    assert "bp.probe(tensor, session=s)" in text


@pytest.mark.parametrize(
    "feeds, first, found",
    [
        ([3.0], "a feed_dict is a dict, not list", "placeholders: x"),
        (3.0, "a feed_dict is a dict, not float", "placeholders: x"),
        ({"y": 3.0}, "the graph has no tensor 'y' to feed", "placeholders: x"),
        ({7: 3.0}, "int cannot be fed", "placeholders: x"),
    ],
)
def test_a_feed_dict_that_names_nothing(feeds, first, found):
    with graph(s3) as (a, session):
        with pytest.raises(bp.BadOption) as caught:
            bp.probe(a, session=session)(feeds)
    assert (caught.value.headline, caught.value.found) == (first, found)
    assert "'x': ..." in caught.value.next


def test_a_fed_tensor_of_another_graph():
    with tf.Graph().as_default():
        foreign = fed()
    with graph(s3) as (a, session):
        text = refused(bp.BadOption, lambda: bp.probe(a, session=session)({foreign: 3.0}))
    assert text.startswith("a tensor of another graph cannot be fed\n")


def test_arguments_that_are_no_feed_dict():
    with graph(s3) as (a, session):
        text = refused(bp.BadOption, lambda: bp.probe(a, session=session)(x=3.0))
    assert text.startswith("the probe of a graph takes a feed_dict, as Session.run does\n")


def test_a_placeholder_that_is_not_fed():
    with graph(s3) as (a, session):
        with pytest.raises(tf.errors.InvalidArgumentError, match="You must feed a value") as caught:
            bp.probe(a, session=session)()
    assert caught.value.__notes__ == ["backprobe: raised while running a under a probe"]


def test_an_operation_without_a_gradient_is_named_by_tensorflow_itself():
    def build():
        return tf.reduce_sum(tf.image.resize(fed(shape=(1, 4, 4, 1)), (2, 2), "area"))

    with graph(build) as (y, session):
        with pytest.raises(LookupError, match="No gradient defined for operation'resize/ResizeArea'") as caught:
            bp.probe(y, session=session)({"x": np.zeros((1, 4, 4, 1))})
    assert caught.value.__notes__ == ["backprobe: raised while running Sum under a probe"]


def test_a_pattern_that_matches_nothing():
    with graph(s3) as (a, session):
        text = refused(bp.NothingMatched, lambda: bp.probe(a, "vv", session=session)({"x": 3.0}))
    assert text.splitlines()[0] == "the pattern 'vv' matches nothing in the graph of a"
    assert text.splitlines()[-1] == "  next:  bp.probe(a, 'v')"


@pytest.mark.parametrize(
    "options, kind, first",
    [
        ({"wrt": "x"}, bp.BadOption, "wrt is for functions: in a graph every value is differentiated"),
        ({"strategy": "hooks"}, bp.StrategyRefused, "the strategy 'hooks' is PyTorch's"),
        ({"create_graph": True}, bp.Unsupported, "gradients of TensorFlow cannot be differentiated again"),
        ({"cotangent": "one"}, bp.BadOutput, "the cotangent is not a tensor"),
    ],
)
def test_options_that_a_graph_does_not_take(options, kind, first):
    with graph(s3) as (a, session):
        assert refused(kind, lambda: bp.probe(a, session=session, **options)({"x": 3.0})).splitlines()[0] == first


def test_an_output_that_no_gradient_reaches():
    with graph(lambda: tf.stop_gradient(fed() * 2.0)) as (y, session):
        text = refused(bp.NothingToDifferentiate, lambda: bp.probe(y, session=session)({"x": 3.0}))
    assert text.startswith("the output does not depend on any differentiated value\n")


def test_an_output_of_integers():
    with graph(lambda: tf.cast(fed(), tf.int32)) as (y, session):
        assert refused(bp.BadOutput, lambda: bp.probe(y, session=session)({"x": 3.0})).startswith(
            "the return value holds no floating tensor\n"
        )
