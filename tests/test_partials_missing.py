"""Partials of other kinds of values, where gradients are missing, and beside custom functions and hooks."""

import pytest
import torch
import torch.nn.functional as F

import backprobe as bp
from asked import agrees, contributions, inputs, on, partials
from custom import custom
from partial_cases import probed, toy, vector

# kinds of values


def test_complex_values_have_contributions_by_the_convention_of_pytorch():
    def f(x):
        z = x * (1 + 2j)
        return (z * z.conj()).real

    for asked in (True, "full"):
        rec = probed(f, 2.0, partials=asked)
        assert rec["z"].partials == {}  # a complex derivative is two numbers, not one
        assert rec["z"].contributions["x"].item() == rec["x"].grad.item() == 20
        assert rec["return"].partials["z"].item() == rec["z"].grad.item() == 4 + 8j
        agrees(rec, 3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_partials_have_the_dtype_of_the_input(dtype):
    def f(x, w):
        h = x.to(dtype)
        g = h * w
        u = (g * 3).float()
        return torch.tanh(u).sum() + g.sum().float()

    rec = probed(f, vector(0.1, 0.2, 0.3), torch.tensor([0.3], dtype=dtype), partials="full")
    for entry in rec.values():
        for edge in entry.inputs:
            assert edge.partial.dtype == edge.contribution.dtype == rec[edge.name].value.dtype
    agrees(rec, 6)


def test_a_sum_that_stagnates_in_bfloat16_is_told():
    """Of 300 ones bfloat16 makes 256, so the gradient is wrong, and the contributions say so."""

    def f(x):
        u = x * 2
        total = 0
        for _ in range(300):
            v = u * 1.0
            total = total + v
        return total

    rec = probed(f, torch.tensor(1.0, dtype=torch.bfloat16))
    assert rec["u"].grad.item() == 256
    assert (rec.path_sums.agree, rec.path_sums.worst) == (False, "u")
    assert rec.path_sums.difference == 300 / 256 - 1
    assert probed(f, torch.tensor(1.0)).path_sums.agree


def test_a_sparse_gradient_is_the_sum_of_dense_contributions():
    def f(w):
        e = F.embedding(torch.tensor([0, 2, 2]), w, sparse=True)
        return (e * 2).sum()

    rec = probed(f, torch.ones(3, 2), partials="full")
    assert rec["w"].grad.is_sparse
    assert rec["e"].contributions["w"].tolist() == [[2, 2], [0, 0], [4, 4]]
    assert rec["e"].partials["w"].shape == (3, 2, 3, 2)
    assert rec["e"].partials["w"].sum() == 6
    agrees(rec, 3)


def test_the_sparse_gradient_of_a_single_number():
    def f(w):
        table = w * 2
        e = F.embedding(torch.tensor([0, 0]), table, sparse=True)
        return e.sum()

    rec = probed(f, torch.ones(1, 1))
    assert rec["table"].grad.is_sparse
    assert contributions(rec) == {"w←table": [[4]], "table←e": [[2]], "e←return": [[1], [1]]}
    agrees(rec, 4)


def test_a_model_with_a_sparse_embedding():
    model = torch.nn.Sequential(torch.nn.Embedding(3, 2, sparse=True), torch.nn.Linear(2, 1))
    rec = probed(model, torch.tensor([0, 2]), of=lambda output: output.sum())
    assert rec["0"].contributions["0.weight"][1].tolist() == [0, 0]
    agrees(rec, 6)


def test_nested_values_have_edges_without_numbers_and_what_flows_into_them_is_not_judged():
    """Autograd cannot start a pass from one by its edge."""

    def f(x, y):
        a = x * 2
        n = torch.nested.nested_tensor_from_jagged(torch.cat([a, y]), torch.tensor([0, 2, 5]))
        v = (n * 3).values()
        return v.sum() + a.sum()

    rec = probed(f, torch.ones(2, 2), torch.ones(3, 2))
    assert inputs(rec)["n"] == ["y", "a"]
    assert {name for name in contributions(rec)} == {"x←a", "a←return", "v←return"}
    sums = rec.path_sums
    assert (sums.agree, sums.judged, sums.unjudged) == (True, 3, ("y", "a", "n"))


def test_values_without_numbers_are_not_judged():
    rec = probed(lambda x: (x * 2).sum(), torch.ones(3, device="meta"))
    assert rec["return"].partials["x"].shape == (3,)
    assert (rec.path_sums.judged, rec.path_sums.unjudged) == (0, ("x", "return"))


@pytest.mark.parametrize("asked", [True, "full"])
def test_values_in_another_layout_have_dense_contributions(asked):
    def f(x):
        u = x.to_mkldnn()
        v = u.to_dense() * 2
        s = v.to_sparse()
        return torch.sparse.sum(s)

    rec = probed(f, vector(), partials=asked)
    assert contributions(rec) == {"x←u": [2, 2, 2], "u←v": [2, 2, 2], "v←s": [1, 1, 1], "s←return": [1, 1, 1]}
    assert ("∂v/∂u" in partials(rec)) == (asked == "full")
    assert rec.path_sums.agree
    assert rec.path_sums.unjudged == ("u",)


def test_a_value_that_fifty_others_consume():
    def f(x):
        u = x * 2
        total = x * 0
        for k in range(50):
            v = u * k
            total = total + v * v
        return total

    rec = probed(f, 1.0)
    consumers = [entry for entry in rec.values() if "u" in entry.partials]
    assert [entry.partials["u"].item() for entry in consumers] == list(range(50))
    assert sum(entry.contributions["u"].item() for entry in consumers) == rec["u"].grad.item()
    agrees(rec, 103)


# gradients that are not there


@on(2.0, partials=True).gives(
    partials={"∂unused/∂x": 5, "∂deeper/∂unused": 2, "∂return/∂x": 3},
    contributions={"x←return": 3},
    judged=2,
    statuses={"unused": "not_connected"},
)
def test_a_value_without_a_gradient_has_partials_and_contributes_nothing(x):
    unused = x * 5
    deeper = unused * 2
    return x * 3


def test_values_outside_the_graph_are_no_inputs():
    def f(x, fixed):
        cut = (x * 2).detach()
        with torch.no_grad():
            quiet = x * 3
        made = fixed * 4
        return x * cut * quiet * made

    rec = probed(f, torch.tensor(1.0, requires_grad=True), torch.tensor(1.0))
    assert inputs(rec) == {"return": ["x"]}
    assert {name: str(rec[name].status) for name in ("cut", "quiet", "made")} == {
        "cut": "detached",
        "quiet": "no_grad",
        "made": "frozen",
    }
    assert rec["return"].partials["x"].item() == 24


@on(3.0, partials=True).gives(partials={"∂n/∂x": 0, "∂return/∂x": 1, "∂return/∂n": 3})
def test_an_input_that_no_derivative_reaches_has_a_partial_of_zero(x):
    n = torch.sign(x)
    return n * x


def test_what_the_program_overwrites_of_an_unconnected_value_is_told():
    def f(x, w):
        h = torch.exp(x)
        unused = h * w
        h.mul_(0.0)
        return x * 3

    rec = probed(f, 2.0, 3.0)
    assert len(rec.notes) == 2
    told = "it is not connected, and its local partials are missing: one of the variables needed for gradient"
    assert [note.split(": ")[0] for note in rec.notes] == ["h#0", "unused"]
    assert all(note.split(": ", 1)[1].startswith(told) and "\n" not in note for note in rec.notes)
    assert partials(rec) == {"∂h#1/∂h#0": 0, "∂return/∂x": 3}
    agrees(rec, 2)


def test_a_graph_that_the_program_has_freed_is_told():
    def f(x):
        y = x * x
        (slope,) = torch.autograd.grad(y, x)
        return x * slope

    rec = probed(f, 3.0)
    told = "y: it is not connected, and its local partials are missing: Trying to backward through the graph a second"
    assert [note.startswith(told) for note in rec.notes] == [True]
    assert partials(rec) == {"∂return/∂x": 6}
    agrees(rec, 2)


# custom functions and hooks


Doubled = custom("Doubled", lambda x: x * 2, lambda gradient, x: gradient * 2)


Clipped = custom("Clipped", lambda x: x.clone(), lambda gradient, x: gradient.clamp(-1, 1))


Shifted = custom("Shifted", lambda x: x.clone(), lambda gradient, x: gradient + 5)
"""Makes something of nothing: its backward adds a number."""


@on(3.0, partials=True).gives(partials={"∂u/∂x": 2, "∂return/∂u": 12}, judged=3)
def test_a_linear_custom_function_has_partials_like_any_other(x):
    u = Doubled.apply(x)
    return u * u


@pytest.mark.parametrize(("asked", "x"), [(True, torch.tensor(1.0)), ("full", torch.ones(2))])
def test_path_sums_disagree_where_a_backward_is_not_linear(asked, x):
    def f(x):
        u = Clipped.apply(x)
        return (u * 3).sum()

    rec = probed(f, x, partials=asked)
    assert rec["x"].grad.unique().tolist() == [1]
    assert rec["u"].contributions["x"].unique().tolist() == [3]
    sums = rec.path_sums
    assert (sums.agree, sums.judged, sums.worst, sums.difference) == (False, 3, "x", pytest.approx(2 / 3))
    assert "the partials do not sum to the gradient of x (relative difference 0.667)" in str(rec)


@pytest.mark.parametrize("value", [lambda x: Shifted.apply(x * 1.0), lambda x: Shifted.apply(x * 1.0) * 1.0])
def test_a_backward_that_makes_something_of_nothing_takes_no_part_where_nothing_flows(value):
    def f(x):
        u = value(x)
        y = u + x
        return y

    rec = probed(f, 3.0, select=["x", "u", "y"])
    assert partials(rec) == {"∂u/∂x": 6, "∂y/∂x": 1, "∂y/∂u": 1}


def test_a_function_that_is_stopped_at_one_output_passes_on_the_other():
    Both = custom("Both", lambda x: (x * 2, x * 3), lambda first, second, x: first * 2 + second * 3)

    def f(x):
        pair = Both.apply(x)
        a = pair[0]
        return a * pair[1]

    rec = probed(f, 3.0, select=["x", "a"])
    assert partials(rec) == {"∂a/∂x": 2, "∂return/∂x": 18, "∂return/∂a": 9}
    agrees(rec, 3)


def hooked(calls):
    def f(x):
        u = x * 2
        u.register_hook(lambda gradient: calls.append(("u", gradient.item())))
        u.register_hook(lambda gradient: gradient * 10)
        v = u * 3
        w = u + v
        return w * x

    return f


def test_a_hook_of_the_users_is_called_once_and_its_entry_is_not_judged():
    plain, calls = [], []
    expected = bp.probe(hooked(plain))(1.0)
    rec = probed(hooked(calls), 1.0)
    assert calls == plain == [("u", 4.0)]
    assert rec["u"].grad.item() == expected["u"].grad.item() == 40  # what the hook made of it
    assert rec["x"].grad.item() == expected["x"].grad.item() == 88
    assert partials(rec) == {"∂u/∂x": 2, "∂v/∂u": 3, "∂w/∂u": 1, "∂w/∂v": 1, "∂return/∂x": 8, "∂return/∂w": 1}
    assert contributions(rec)["x←u"] == 80
    sums = rec.path_sums
    assert (sums.agree, sums.judged, sums.unjudged) == (True, 4, ("u",))
    why = "a hook of yours, a nested tensor, a loop of JAX, tensors in a block, or terms that cancel or underflow"
    assert f"not compared ({why}): u" in str(rec)


def test_what_rounding_leaves_of_terms_that_cancel_is_not_judged():
    def f(z):
        k = z[0] * 0.5
        u = z * 0.5
        u *= k / (2.0 + torch.tanh(k * k)) - k / (2.0 + torch.tanh(k * k))
        return (u * torch.tensor([0.71, -1.13, 0.43], dtype=torch.float64)).sum() * 0.5

    rec = bp.probe(f, partials="full")(torch.tensor([-0.285, 0.92, 0.44], dtype=torch.float64))
    assert abs(rec["k"].grad.item()) < 1e-15
    sums = rec.path_sums
    assert (sums.agree, sums.judged + len(sums.unjudged)) == (True, 5), sums


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_gradients_that_underflow_are_not_said_to_be_wrong(dtype):
    """Below the smallest normal number a gradient loses its digits one by one, and each step rounds it otherwise."""

    def f(x, w):
        h = x
        for _ in range(100):
            h = torch.tanh(h * w + x)
        return h

    rec = bp.probe(f, partials=True)(torch.tensor(0.5, dtype=dtype), torch.tensor(1.2, dtype=dtype))
    assert 0 < min(filter(None, map(torch.Tensor.item, rec.grads().values()))) < torch.finfo(dtype).tiny
    sums = rec.path_sums
    assert (sums.agree, sums.judged + len(sums.unjudged)) == (True, len(rec.grads())), sums
    assert sums.unjudged


def test_a_hook_on_an_argument_is_called_once():
    calls, x = [], torch.tensor(3.0, requires_grad=True)
    x.register_hook(lambda gradient: calls.append(gradient.item()) or gradient * 2)
    rec = probed(toy, x, torch.tensor(2.0), torch.tensor(1.0))
    assert calls == [2]
    assert rec["x"].grad.item() == 4
    assert rec["u"].partials["x"].item() == rec["u"].contributions["x"].item() == 2
    assert rec.path_sums.unjudged == ("x",)


def test_hooks_are_there_again_afterwards():
    calls, kept = [], []

    def f(x):
        u = x * 2
        handles.append(u.register_hook(lambda gradient: calls.append("first")))
        u.register_hook(lambda gradient: calls.append("second"))
        kept.append(u)
        return u * 3

    handles = []
    rec = probed(f, 1.0)
    calls.clear()
    rec.result.backward(retain_graph=True)
    assert calls == ["first", "second"]
    handles[0].remove()
    rec.result.backward()
    assert calls == ["first", "second", "second"]
