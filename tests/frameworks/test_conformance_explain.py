"""Why a gradient is missing, in every framework: the cause, its line, the chain, and what to write instead."""

import inspect
import re

import pytest
from backends import FRAMEWORKS

import backprobe as bp
from backprobe.explain.catalogue import CAUSES, FLAT, instead_of_flat
from backprobe.explain.words import WORDS

SECTION = "Why a gradient is missing"
supports = pytest.mark.supports


def given(framework):
    return framework.tensor([1.0, 2.0]), framework.tensor([3.0, 4.0])


def line(function, text):
    """The number of the line of a function that holds a text."""
    source, first = inspect.getsourcelines(function)
    (found,) = [first + at for at, each in enumerate(source) if text in each]
    return found


def found(report):
    return [(finding.kind, finding.source.line, finding.chain) for finding in report.findings]


@supports("`bp.explain(rec, name)`: the line that cuts the graph, and the way to it", SECTION)
def test_what_cuts_the_graph(framework):
    ops = framework.ops

    def f(x, w):
        u = x * w
        cut = ops.stop_gradient(u)
        return ops.sum(cut * w)

    recording = bp.probe(f)(*given(framework))
    at = line(f, "cut = ops")
    (kind, where, chain), *others = found(bp.explain(recording, "x"))
    assert (kind in ("detach", "stop_gradient"), where, chain, others) == (True, at, ("x", "u", "cut"), [])
    assert recording["x"].cause.line == at
    with pytest.raises(bp.NoGradient, match=f"{at}: cut = ops.stop_gradient"):
        recording["x"].grad
    assert found(bp.explain(recording, "cut"))[0][:2] == (kind, at)


@supports("several cuts, in called functions too, and values that have no derivative by nature", SECTION)
def test_several_cuts(framework):
    ops = framework.ops

    def helper(value):
        half = value / 2.0
        return ops.stop_gradient(half)

    def f(x, w):
        u = x * w
        mask = u > 4.0
        scaled = helper(u)
        return ops.sum(scaled * w + ops.cast(mask, ops.single) * w)

    recording = bp.probe(f)(*given(framework))
    at = {where: kind for kind, where, _ in found(bp.explain(recording, "u"))}
    assert at.keys() == {line(f, "mask ="), line(helper, "return ops")}
    assert at[line(f, "mask =")] == "comparison"
    assert {finding.kind for finding in bp.explain(recording).findings} == set(at.values())


@supports("a cut in a statement over several lines, at the line of the part that cuts", SECTION)
def test_a_statement_over_several_lines(framework):
    ops = framework.ops

    def f(x, w):
        u = x * w
        result = ops.sum(
            w
            * ops.stop_gradient(
                u,
            ),
        )
        return result

    recording = bp.probe(f)(*given(framework))
    at = line(f, "* ops.stop_gradient(")
    assert found(bp.explain(recording, "x"))[0][1] == at
    with pytest.raises(bp.NoGradient, match=f":{at}: \\* ops.stop_gradient"):
        recording["u"].grad


@supports("positions, and a value that is computed again instead of used", SECTION)
def test_positions_and_values_computed_again(framework):
    ops = framework.ops

    def f(x, w):
        u = x * w
        position = ops.argmax(u, 0)
        seen = ops.tanh(w)
        return ops.sum(ops.tanh(w) * ops.cast(position, ops.single))

    recording = bp.probe(f)(*given(framework))
    assert found(bp.explain(recording, "x"))[0][:2] == ("index", line(f, "position ="))
    assert found(bp.explain(recording, "seen"))[0][:2] == ("made_again", line(f, "return"))


@supports("a value that the output does not depend on: where what is computed from it ends", SECTION)
def test_a_value_that_is_not_used(framework):
    def f(x, w):
        u = x * w
        beside = u * 2.0
        end = beside + 1.0
        return framework.ops.sum(u)

    assert found(bp.explain(bp.probe(f)(*given(framework)), "beside")) == [
        ("unused", line(f, "end ="), ("beside", "end"))
    ]


@supports("a gradient that is zero everywhere: the line whose derivative is 0", SECTION)
def test_a_gradient_that_is_zero(framework):
    ops = framework.ops

    def f(x, w):
        u = -x * w
        a = ops.relu(u)
        return ops.sum(a * w)

    recording = bp.probe(f)(*given(framework))
    assert found(bp.explain(recording, "x")) == [("zero_derivative", line(f, "a ="), ("x", "u", "a"))]
    assert bp.explain(recording, "w").ok is False  # w reaches the output through a alone, which is 0
    assert bp.explain(recording, "a").ok


@supports("the same of a recording that was saved and loaded", SECTION)
def test_a_recording_that_was_saved(framework, tmp_path):
    ops = framework.ops

    def f(x, w):
        u = x * w
        return ops.sum(ops.stop_gradient(u) * w)

    recording = bp.probe(f)(*given(framework))
    recording.save(tmp_path / "saved")
    for loaded in (bp.load(tmp_path / "saved"), bp.load(tmp_path / "saved", to="numpy")):
        assert str(bp.explain(loaded, "x")) == str(bp.explain(recording, "x"))
        assert str(bp.explain(loaded)) == str(bp.explain(recording))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=supports("`bp.explain(loss, tensor)`, without a recording", SECTION, on=name,
                                          answer="yes" if name == "torch" else "`Unsupported`: no tensor has a graph"))
        for name in FRAMEWORKS
    ],
)  # fmt: skip
def test_a_tensor_without_a_recording(name):
    framework = FRAMEWORKS[name]
    x, w = given(framework)
    if name == "torch":
        x.requires_grad_()
        u = x * w
        assert [finding.kind for finding in bp.explain(u.sum(), u).findings] == ["not_retained"]
        return
    with pytest.raises(bp.Unsupported, match=r"next:  rec = bp.probe\(f\)\(x\)"):
        bp.explain(framework.ops.sum(x * w), x)


STRAIGHT_THROUGH = {
    "torch": "u + (round(u) - u).detach()", "tensorflow": "u + tf.stop_gradient(round(u) - u)",
    "jax": "u + jax.lax.stop_gradient(round(u) - u)",
}  # fmt: skip


@supports("an operation that is flat has the remedy of such, in the framework's words", SECTION)
def test_an_operation_that_is_flat_has_the_remedy_of_such(framework, tmp_path):
    ops = framework.ops

    def f(x, w):
        u = x * w
        r = ops.round(u)
        return ops.sum(r * w)

    recording = bp.probe(f)(*given(framework))
    (finding,) = bp.explain(recording, "u").findings
    assert (finding.kind, finding.source.text) == ("zero_derivative", "r = ops.round(u)")
    assert finding.remedy.startswith("round is flat between its steps")
    assert STRAIGHT_THROUGH[framework.name] in finding.remedy
    recording.save(tmp_path / "saved")
    assert str(bp.explain(bp.load(tmp_path / "saved", to="numpy"), "u")) == str(bp.explain(recording, "u"))


@supports("an operation that is flat, in the middle of an expression", SECTION)
def test_an_operation_that_is_flat_in_the_middle_of_an_expression(framework):
    ops = framework.ops

    def f(x, w):
        u = x * w
        return ops.sum(ops.round(u * 0.5) * w)

    (finding,) = bp.explain(bp.probe(f)(*given(framework)), "u").findings
    assert (finding.kind, finding.source.line) == ("zero_derivative", line(f, "return"))
    assert finding.headline == "the derivative of 'return' towards 'u' that backward takes is 0"


ONLY_IN_PYTORCH = ("no_grad", "checkpoint", "overwritten", "made_leaf", "data")
FIELDS = dict.fromkeys(("value", "plain", "target", "text", "call", "dtype", "mode", "function", "reason", "instead",
                        "again", "others", "outputs", "module"), "u")  # fmt: skip


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_remedies_speak_of_the_framework_in_use(name):
    remedies = {kind: cause.instead(name, **FIELDS) for kind, cause in CAUSES.items()}
    remedies |= {operation: instead_of_flat(operation, name) for operation in FLAT}
    in_pytorch = re.compile(r"torch\b|requires_grad|detach|create_graph")
    spoken = {kind for kind, remedy in remedies.items() if in_pytorch.search(remedy)}
    if name == "torch":
        assert {"copied", "comparison", "round", "frozen"} <= spoken
    else:
        assert spoken <= {"detach", *ONLY_IN_PYTORCH}
    assert all(words.keys() == WORDS["torch"].keys() for words in WORDS.values())


@supports("positions, comparisons and whole numbers: the remedies name functions of the framework", SECTION)
def test_remedies_name_functions_of_the_framework(framework):
    ops = framework.ops
    int32 = ops.integer

    def f(x, w):
        u = x * w
        position = ops.argmax(u, 0)
        mask = u > 4.0
        whole = ops.cast(u, int32)
        return ops.sum(w * ops.cast(position, ops.single) * ops.cast(mask, ops.single) * ops.cast(whole, ops.single))

    remedies = {finding.kind: finding.remedy for finding in bp.explain(bp.probe(f)(*given(framework)), "x").findings}
    wanted = {
        "torch": ("u.max(), u.gather(...)", "torch.where", "float()"),
        "tensorflow": ("tf.reduce_max(u), tf.gather(u, ...)", "tf.where", "tf.cast"),
        "jax": ("u.max(), jnp.take(u, ...)", "jnp.where", "astype"),
    }[framework.name]
    for kind, words in zip(("index", "comparison", "integer"), wanted, strict=True):
        assert words in remedies[kind]


@supports("what is not differentiated: what makes it so in the framework", SECTION)
def test_what_is_not_differentiated(framework):
    def f(x, w):
        return framework.ops.sum(x * w)

    (finding,) = bp.explain(bp.probe(f, wrt="x")(*given(framework)), "w").findings
    assert finding.kind == "frozen_leaf"
    assert "wrt='w'" in finding.remedy
    assert ("requires_grad" in finding.remedy) is (framework.name == "torch")


def test_a_gradient_that_a_loop_cuts_off_is_zero_for_the_line_in_the_loop():
    import jax
    import jax.numpy as jnp

    def f(x, w):
        def turn(h, _):
            s = jax.lax.stop_gradient(h)
            k = s * w
            return k, k

        last, _ = jax.lax.scan(turn, x, None, length=3)
        return last.sum()

    recording = bp.probe(f)(jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0]))
    (finding,) = bp.explain(recording, "x").findings
    assert (finding.kind, finding.source.text) == ("stop_gradient", "s = jax.lax.stop_gradient(h)")
    assert bp.explain(recording, "w").ok


def test_a_variable_that_is_made_of_a_value_is_a_new_leaf():
    import tensorflow as tf

    def f(x, w):
        v = tf.Variable(x * w)
        return tf.reduce_sum(v * w)

    (finding,) = bp.explain(bp.probe(f)(tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0])), "x").findings
    assert (finding.kind, finding.source.text) == ("parameter", "v = tf.Variable(x * w)")
