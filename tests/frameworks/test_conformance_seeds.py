"""The cases that backprobe began with, in every framework: numbers, partials, drawing, order and derivation."""

import re

import pytest
from backends import FRAMEWORKS

import backprobe as bp
from drawn import Drawn

supports = pytest.mark.supports
SECTION = "Derivatives of each step"
NUMBER = re.compile(r"(?<=bp)[0-9a-f]{10}")  # that tells one drawing of a page from the others


def toy(ops):
    def f(x, w, b):
        u = x * w
        v = u + b
        a = ops.relu(v)
        return a

    return f


def leaves(framework):
    return [framework.tensor([number]) for number in (3.0, 2.0, 1.0)]


def numbers(framework, tensors):
    return {name: framework.numpy(tensor).item() for name, tensor in tensors.items()}


@supports("values and gradients of the toy graph, the same in all", SECTION)
def test_s1_values_and_s2_gradients_of_the_toy_graph(framework):
    rec = bp.probe(toy(framework.ops))(*leaves(framework))
    values = numbers(framework, {name: entry.value for name, entry in rec.items()})
    assert values == {"x": 3, "w": 2, "b": 1, "u": 6, "v": 7, "a": 7}
    assert numbers(framework, rec.grads()) == {"x": 2, "w": 3, "b": 1, "u": 1, "v": 1, "a": 1}
    assert framework.numpy(rec.result).item() == 7
    assert [entry.op for entry in rec.values()] == ["", "", "", "mul", "add", "relu"]


@supports("`partials=True`: the local derivative on each edge", SECTION)
def test_s2_partials_on_the_edges(framework):
    rec = bp.probe(toy(framework.ops), partials=True)(*leaves(framework))
    assert {name: numbers(framework, entry.partials) for name, entry in rec.items() if entry.partials} == {
        "u": {"x": 2, "w": 3},
        "v": {"u": 1, "b": 1},
        "a": {"v": 1},
    }
    assert {name: numbers(framework, entry.contributions) for name, entry in rec.items() if entry.contributions} == {
        "u": {"x": 2, "w": 3},
        "v": {"u": 1, "b": 1},
        "a": {"v": 1},
    }
    assert (rec.path_sums.judged, rec.path_sums.agree, rec.path_sums.unjudged) == (6, True, ())


@supports("`bp.draw`: the circuit, with values and partials", SECTION)
def test_s1_and_s2_drawn(framework):
    rec = bp.probe(toy(framework.ops), partials=True)(*(framework.tensor(number) for number in (3.0, 2.0, 1.0)))
    shown = Drawn(bp.draw(rec).svg)
    assert {name: lines[-2:] for name, lines in shown.nodes.items()} == {
        "x": ["= 3", "∂a/∂x = 2"],
        "w": ["= 2", "∂a/∂w = 3"],
        "b": ["= 1", "∂a/∂b = 1"],
        "u": ["= 6", "∂a/∂u = 1"],
        "v": ["= 7", "∂a/∂v = 1"],
        "a": ["= 7", "∂a/∂a = 1"],
    }
    assert shown.edges == {("x", "u"): "2", ("w", "u"): "3", ("u", "v"): "1", ("b", "v"): "1", ("v", "a"): "1"}


def test_the_drawings_are_the_same():
    drawings = {
        name: NUMBER.sub("", bp.draw(bp.probe(toy(framework.ops), partials=True)(*leaves(framework))).svg)
        for name, framework in FRAMEWORKS.items()
    }
    assert drawings["tensorflow"] == drawings["torch"]
    assert drawings["jax"] == drawings["torch"]


def func(x):
    z = 2 * x
    return z


def func2(z):
    y = (z**2) + (2 * z) + 2
    return y


def composed(x):
    z = func(x)
    y = func2(z)
    return y


@supports("`backward_order()`: the order in which backward visits the values", SECTION)
def test_s8_gradients_inside_called_functions_in_the_order_of_backward(framework):
    rec = bp.probe(composed)(framework.tensor([1.0]))
    order = [(name, framework.numpy(rec[name].grad).item()) for name in rec.backward_order()]
    assert order == [("y", 1), ("z", 6), ("x", 12)]
    assert rec["/func:z"] is rec["z"] is rec["/func2:z"] is rec["/func"]


def test_the_order_of_backward_is_from_the_output_to_the_arguments(framework):
    order = bp.probe(toy(framework.ops))(*leaves(framework)).backward_order()
    assert order[:2] == ["a", "v"]
    assert sorted(order) == ["a", "b", "u", "v", "w", "x"]
    assert order.index("u") < min(order.index("x"), order.index("w"))


@supports("`bp.derive`: the chain rule written out, from the source", SECTION)
def test_s9_the_derivation(framework):
    derivation = bp.derive(bp.probe(composed, partials=True)(framework.tensor(1.0)), "x")
    line = func2.__code__.co_firstlineno + 1
    assert derivation.text == (
        "∂y/∂x = ∂y/∂z · ∂z/∂x = (2z+2)·2 = 6·2 = 12\n"
        "\n"
        f"y = z²+2z+2  (test_conformance_seeds.py:{line})\n"
        f"z = 2x  (test_conformance_seeds.py:{func.__code__.co_firstlineno + 1})\n"
        "\n"
        "at x = 1, z = 2, y = 10"
    )
    assert (derivation.value, derivation.agrees, derivation.notes) == (12.0, True, ())


@supports("`bp.derive` through the framework's own functions: sin, exp, tanh", SECTION)
def test_the_functions_of_a_framework_in_a_derivation(framework):
    sin, exp = framework.ops.sin, framework.ops.exp

    def f(x):
        u = sin(x)
        y = exp(u) * 2
        return y

    derivation = bp.derive(bp.probe(f, partials=True)(framework.tensor(0.5)), "x")
    assert derivation.text.splitlines()[0] == ("∂y/∂x = ∂y/∂u · ∂u/∂x = 2·exp(u)·cos(x) = 3.23029·0.877583 = 2.83485")
    assert (derivation.agrees, derivation.notes) == (True, ())


@supports("`partials`: the other inputs of a step are held still", SECTION)
def test_a_partial_holds_the_other_inputs_still(framework):
    sin = framework.ops.sin

    def f(x):
        u = x * 2
        v = x + u
        s = u * v + sin(x) * 0
        return s

    rec = bp.probe(f, partials=True)(framework.tensor(3.0))
    found = {name: numbers(framework, entry.partials) for name, entry in rec.items()}
    assert found == {"x": {}, "u": {"x": 2}, "v": {"x": 1, "u": 1}, "s": {"x": 0, "u": 9, "v": 6}}
    assert framework.numpy(rec["x"].grad).item() == 2 * 9 + 3 * 6
    assert (rec.path_sums.judged, rec.path_sums.agree) == (4, True)


def squares(ops):
    def f(a, x):
        h = ops.matmul(a, x)
        return ops.sum(h * h)

    return f


A, X = [[1.0, 2.0], [3.0, 4.0]], [[1.0], [-1.0]]


@supports("contributions: what flows along each edge, for values of several elements too", SECTION)
def test_contributions_are_vector_jacobian_products(framework):
    rec = bp.probe(squares(framework.ops), partials=True)(framework.tensor(A), framework.tensor(X))
    assert rec["h"].partials == {}
    assert framework.numpy(rec["return"].partials["h"]).tolist() == [[-2], [-2]]
    found = {name: framework.numpy(flow).tolist() for name, flow in rec["h"].contributions.items()}
    assert found == {"a": [[-2, 2], [-2, 2]], "x": [[-8], [-12]]}
    assert (rec.path_sums.judged, rec.path_sums.agree) == (4, True)


@supports('`partials="full"`: whole Jacobian blocks', SECTION)
def test_full_partials(framework):
    rec = bp.probe(squares(framework.ops), partials="full")(framework.tensor(A), framework.tensor(X))
    block = framework.numpy(rec["h"].partials["x"])
    assert block.shape == (2, 1, 2, 1)
    assert block.reshape(2, 2).tolist() == A
    assert framework.numpy(rec["h"].partials["a"]).reshape(2, 4).tolist() == [[1, -1, 0, 0], [0, 0, 1, -1]]


@supports("`bp.jacobian`: of an output that is not a scalar, with respect to any value", SECTION)
def test_a_jacobian(framework):
    def f(x, w):
        u = x * w
        return u * u

    found = bp.jacobian(f, "u")(framework.tensor([1.0, 2.0]), framework.tensor([3.0, 4.0]))
    assert framework.numpy(found).tolist() == [[6, 0], [0, 16]]
    found = bp.jacobian(lambda x: {"a": x * x, "b": x}, "x", of="a")(framework.tensor([1.0, 2.0]))
    assert framework.numpy(found).tolist() == [[2, 0], [0, 4]]


@supports("partials of values that are not selected are folded into those that are", SECTION)
def test_values_that_are_not_selected_are_skipped_over(framework):
    rec = bp.probe(toy(framework.ops), ["x", "w", "a"], partials=True)(*leaves(framework))
    assert {name: numbers(framework, entry.partials) for name, entry in rec.items() if entry.partials} == {
        "a": {"x": 2, "w": 3}
    }
    assert (rec.path_sums.judged, rec.path_sums.agree) == (3, True)
