"""Local partials, contributions, and whether they sum to the gradients."""

import gc
import json
import math
import weakref

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.autograd.functional import jacobian
from torch.utils.checkpoint import checkpoint

import backprobe as bp
from asked import agrees, contributions, inputs, message, on, partials, round_trip
from backprobe.demo import small_gpt2
from custom import custom
from stored import bits, check_entries, same

NAN, INF = math.nan, math.inf
WEIGHTS = torch.tensor([5.0, 6.0, 7.0])


def probed(function, *args, partials=True, **options):
    return bp.probe(function, partials=partials, **options)(*args)


def vector(*numbers):
    return torch.tensor(numbers or (1.0, 2.0, 3.0))


# what a local partial is


def toy(x, w, b):
    u = x * w
    v = u + b
    a = torch.relu(v)
    return a


def test_a_partial_where_its_inputs_are_bound_apart():
    def f(x):
        u = x * 2
        v = u + 1
        s = u * v + torch.sin(x)
        return s

    rec = probed(f, 3.0)
    assert rec["s"].partials["u"].item() == 7
    assert rec["s"].partials["v"].item() == 6
    assert rec["s"].partials["x"].item() == pytest.approx(math.cos(3))
    agrees(rec, 4)


def test_partials_are_towards_the_operand_that_they_are_of():
    assert partials(probed(lambda x, y: x / y, 1.0, 2.0)) == {"∂return/∂x": 0.5, "∂return/∂y": -0.25}
    assert partials(probed(lambda x, y: y / x, 2.0, 1.0)) == {"∂return/∂x": -0.25, "∂return/∂y": 0.5}


@on(3.0, partials=True).gives(
    partials={"∂u/∂x": 6, "∂y/∂x": 9, "∂y/∂u": 3}, contributions={"x←u": 18, "x←y": 9, "u←y": 3}, grads={"x": 27}
)
def test_a_value_that_flows_in_directly_and_through_another(x):
    u = x * x
    y = u * x
    return y


def test_a_value_used_twice_by_one_operation_has_one_edge():
    rec = probed(lambda x, y: (x * y).sum(), x := vector(2.0, 3.0), x)
    assert partials(rec) == {"∂return/∂x": [4, 6]}


@on(0.0, partials=True).gives(
    partials={"∂u/∂x": INF, "∂y/∂x": 1, "∂y/∂u": 1},
    contributions={"x←u": INF, "x←y": 1, "u←y": 1},
    judged=3,
    grads={"x": INF},
)
def test_an_infinite_partial_beyond_a_recorded_value_does_not_leak(x):
    """The root's derivative at 0 is infinite; stopped with zeros instead of nothing it would pass on 0 times that."""
    u = torch.sqrt(x)
    y = u + x
    return y


Root = custom("Root", torch.sqrt, lambda gradient, x: gradient / (2 * x.sqrt()))


@pytest.mark.parametrize("value", [lambda x: Root.apply(x * 1.0), lambda x: Root.apply(x * 1.0) * 1.0])
def test_nor_does_it_leak_from_a_custom_function(value):
    """Which is given zeros where nothing flows in, whether its own output has the name or what follows it."""

    def f(x):
        u = value(x)
        y = u + x
        return y

    rec = probed(f, 0.0, select=["x", "u", "y"])
    assert partials(rec) == {"∂u/∂x": INF, "∂y/∂x": 1, "∂y/∂u": 1}
    agrees(rec, 3)


def test_a_gradient_that_is_no_number_agrees_with_itself():
    def f(x):
        u = torch.sqrt(x)
        return u * 0.0 + x

    rec = probed(f, 0.0)
    assert math.isnan(rec["x"].grad.item())
    assert math.isnan(rec["u"].contributions["x"].item())
    assert rec["return"].partials["x"].item() == 1
    agrees(rec, 3)
    assert rec.path_sums.difference == 0


@on(1.0, partials=True).gives(judged=3, grads={"x": INF})
def test_gradients_that_overflow_agree(x):
    u = x * 1e30
    return u * 1e30


def test_what_autograd_knows_to_be_zero_stays_zero_beside_an_infinite_partial():
    """``where`` leaves the root at 0 out, which as a product would be 0 times infinity."""

    def f(x):
        r = torch.sqrt(x[0])
        return torch.where(x[0] > 0, r, x[1])

    rec = probed(f, vector(0.0, 5.0))
    assert rec["r"].grad.item() == 0
    assert torch.equal(rec["r"].contributions["x"].isnan(), rec["x"].grad.isnan())
    agrees(rec, 3)


@on(2.0, partials=True).gives(contributions={"x←u": 0, "u←a": 0, "a←return": INF}, judged=4, grads={"a": INF})
def test_an_infinite_gradient_does_not_pass_where_autograd_lets_nothing_pass(x):
    u = x * 1
    a = torch.relu(u - 5)
    return torch.sqrt(a)


def test_a_partial_beyond_the_range_of_its_dtype_does_not_spoil_the_contribution():
    def f(x):
        v = (x * 300) * 300
        return v * 1e-4

    rec = probed(f, torch.tensor(0.001, dtype=torch.float16))
    assert partials(rec)["∂v/∂x"] == INF
    assert contributions(rec)["x←v"] == rec["x"].grad.item() == 9
    agrees(rec, 3)


# values of several elements


def test_a_partial_of_one_element_has_the_shape_of_the_input_whatever_its_own_is():
    def f(x):
        s = (x * WEIGHTS).sum(0, keepdim=True)
        t = s.reshape(1, 1)
        return t.sum()

    for asked in (True, "full"):
        rec = probed(f, vector(), partials=asked)
        assert partials(rec) == {"∂s/∂x": [5, 6, 7], "∂t/∂s": [1], "∂return/∂t": [[1]]}
        agrees(rec, 4)


BLOCKS = {
    "matmul": lambda x, y: x @ y.T,
    "broadcast": lambda x, y: x * y[0] + y[:, :1],
    "softmax": lambda x, y: torch.softmax(x * y, -1),
    "layer_norm": lambda x, y: F.layer_norm(x, (3,)) - y,
    "cumsum": lambda x, y: torch.cumsum(x * y, 1)[:, ::2],
    "transposed": lambda x, y: (x + y).T,
    "complex inside": lambda x, y: torch.fft.rfft(x * y).abs(),
    "no row flows": lambda x, y: torch.cat([x, torch.zeros(1, 3), y.detach() * x]),
    "expanded": lambda x, y: (x.sum() * y[0, 0]).expand(4),
    "where": lambda x, y: torch.where(x > y, x, y * y),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_full_blocks_are_those_of_torch(name):
    def f(x, y):
        block = BLOCKS[name](x, y)
        return (block * torch.linspace(-1, 2, block.numel()).reshape(block.shape)).sum()

    torch.manual_seed(0)
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    rec = probed(f, x, y, partials="full", select=["x", "y", "block", "return"])
    for name_of_input, expected in zip("xy", jacobian(BLOCKS[name], (x, y)), strict=True):
        found = rec["block"].partials.get(name_of_input, torch.zeros_like(expected))
        assert found.shape == expected.shape
        assert torch.allclose(found, expected, atol=1e-6)
    agrees(rec, 2 + len(rec["block"].inputs))


@pytest.mark.parametrize("asked", [True, "full"])
def test_a_value_without_elements_has_partials_without_elements(asked):
    def f(x):
        u = x[:0] * 2
        return u.sum() + x.sum()

    rec = probed(f, vector(), partials=asked)
    assert rec["u"].contributions["x"].tolist() == [0, 0, 0]
    assert rec["return"].partials["u"].shape == (0,)
    assert {by: tuple(p.shape) for by, p in rec["u"].partials.items()} == ({"x": (0, 3)} if asked == "full" else {})
    agrees(rec, 3)


def test_a_block_too_large_is_told_and_the_others_are_there():
    def f(x, w):
        u = x * w
        return u.sum()

    rec = probed(f, torch.ones(1001), torch.tensor(2.0), partials="full")
    assert rec.notes == ("u: a Jacobian block of 1,002,001 elements was not computed: the limit is 1,000,000",)
    assert list(rec["u"].partials) == ["w"]
    assert torch.equal(rec["u"].partials["w"], torch.ones(1001))
    assert torch.equal(rec["u"].contributions["x"], torch.full((1001,), 2.0))
    agrees(rec, 4)


def test_a_block_as_large_as_allowed_is_taken():
    rec = probed(lambda x: x * 2, torch.ones(1000), partials="full", cotangent=torch.ones(1000))
    assert torch.equal(rec["return"].partials["x"], 2 * torch.eye(1000))
    assert rec.notes == ()


@on(vector(), partials="full").gives(judged=4)
def test_gradients_that_nearly_cancel_in_a_saturated_block_agree(x):
    """What rounding makes of a product with the block is no sign of a backward that is not linear."""
    y = torch.tanh(x)
    z = torch.softmax(y * 1e-4, 0)
    return (z * z).sum()


@pytest.mark.parametrize("asked", [True, "full"])
def test_blocks_are_taken_only_where_they_are_asked_for(asked):
    rec = probed(lambda x: x * 2, vector(), partials=asked, cotangent=[1.0, 2.0, 3.0])
    assert list(rec["return"].partials) == (["x"] if asked == "full" else [])
    assert rec["return"].contributions["x"].tolist() == [2, 4, 6]


# operations with several outputs


def test_parts_that_one_operation_returns_are_told_apart():
    def f(x):
        a, b = torch.split(x, 1)
        c, d = torch.unbind(x)
        best, at = torch.topk(x, 1)
        ordered = torch.sort(x)
        return (a * b).sum() + c * d + best.sum() * 2 + ordered.values[0]

    rec = probed(f, vector(2.0, 3.0))
    assert partials(rec) == {
        "∂a/∂x": [1, 0], "∂b/∂x": [0, 1], "∂c/∂x": [1, 0], "∂d/∂x": [0, 1], "∂best/∂x": [0, 1], "∂return/∂a": [3],
        "∂return/∂b": [2], "∂return/∂c": 3, "∂return/∂d": 2, "∂return/∂best": [2], "∂return/∂ordered.0": [1, 0],
    }  # fmt: skip
    assert contributions(rec)["x←ordered.0"] == [1, 0]
    agrees(rec, 8)


@on(vector(2.0, 3.0), partials=True).gives(partials={
    "∂a/∂x": [2, 0], "∂b/∂x": [0, 2], "∂s/∂a": 6, "∂s/∂b": 4, "∂t/∂b": 24, "∂t/∂s": 6
}, judged=5)  # fmt: skip
def test_a_part_that_feeds_another_part_s_consumer_lets_nothing_through(x):
    a, b = torch.unbind(x * 2)
    s = a * b
    t = s * b
    return t


def test_blocks_of_eigenvalues_and_eigenvectors():
    def f(x):
        values, vectors = torch.linalg.eigh(x)
        return values[0] * values[1] + vectors[0, 0] ** 2 * values[0]

    x = torch.tensor([[2.0, 1.0], [1.0, 3.0]], dtype=torch.float64)
    rec = probed(f, x, partials="full")
    for at, name in enumerate(["values", "vectors"]):
        expected = jacobian(lambda x: tuple(torch.linalg.eigh(x))[at], x)
        assert torch.allclose(rec[name].partials["x"], expected, atol=1e-12)
    assert inputs(rec) == {"values": ["x"], "vectors": ["x"], "return": ["values", "vectors"]}
    agrees(rec, 4)


# versions, views, aliases


@on(3.0, 2.0, partials=True).gives(partials={
    "∂u#0/∂x": 2, "∂u#0/∂w": 3, "∂u#1/∂u#0": 1, "∂u#2/∂w": 7, "∂u#2/∂u#1": 2, "∂return/∂u#2": 28
}, judged=6)  # fmt: skip
def test_each_version_of_a_value_written_in_place_has_its_own_edge(x, w):
    u = x * w
    u += 1
    u.mul_(w)
    return u * u


def test_an_item_written_is_an_input_of_the_new_version():
    def f(x):
        u = x * 2
        y = x[1] * 5
        u[0] = y
        return (u * WEIGHTS).sum()

    rec = probed(f, vector(), partials="full")
    assert partials(rec)["∂u#1/∂u#0"] == [[0, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert partials(rec)["∂u#1/∂y"] == [1, 0, 0]
    agrees(rec, 5)


def test_a_write_through_a_view_flows_around_it_to_the_base():
    def f(x):
        u = x * 2
        v = u[0]
        v.mul_(3)
        return (u * WEIGHTS).sum()

    rec = probed(f, vector(), partials="full")
    assert partials(rec) == {
        "∂u#0/∂x": [[2, 0, 0], [0, 2, 0], [0, 0, 2]], "∂v#0/∂u#0": [1, 0, 0],
        "∂u#1/∂u#0": [[3, 0, 0], [0, 1, 0], [0, 0, 1]], "∂return/∂u#1": [5, 6, 7],
    }  # fmt: skip
    assert contributions(rec) == {
        "x←u#0": [30, 12, 14], "u#0←u#1": [15, 6, 7], "v#0←u#1": 15, "u#1←return": [5, 6, 7],
    }  # fmt: skip
    assert rec["v#1"].partials == {}
    agrees(rec, 4)


def test_a_part_of_a_value_without_a_name_gets_its_share_of_what_flows():
    Nothing = custom("Nothing", lambda x: x.sum(), lambda gradient, x: None)

    def f(x):
        r = (x * 2)[0:2]
        r.mul_(3)
        s = Nothing.apply(r)
        return s + (r * r).sum()

    rec = probed(f, vector())
    assert rec["return"].contributions["r#1"].tolist() == rec["r#1"].grad.tolist() == [12, 24]
    assert rec["s"].contributions["r#1"].tolist() == [0, 0]
    agrees(rec, 4)


def test_an_edge_has_the_first_name_of_its_input_and_its_aliases_have_no_edge():
    def f(x):
        u = x * 2
        same = u
        also = same
        return also * u

    rec = probed(f, 3.0)
    assert rec["also"] is rec["u"]
    assert inputs(rec) == {"u": ["x"], "return": ["u"]}
    assert partials(rec) == {"∂u/∂x": 2, "∂return/∂u": 12}


def test_an_argument_given_twice_is_one_input():
    x = torch.tensor(3.0)
    rec = probed(lambda a, b: a * b, x, x)
    assert partials(rec) == {"∂return/∂a": 6}


def test_an_opaque_value_has_edges_without_numbers():
    def f(x):
        z = torch.view_as_complex((x * 2).reshape(2, 2))
        r = torch.view_as_real(z)
        r.mul_(2)
        return r.sum() + z.abs().sum()

    rec = probed(f, torch.arange(1.0, 5.0))
    assert rec["z#0"].status == "opaque"
    for name, entry in rec.items():
        for edge in entry.inputs:
            if "opaque" in (entry.status, rec[edge.name].status):
                assert (edge.partial, edge.contribution) == (None, None), (name, edge.name)
    assert rec.path_sums.agree


def test_what_was_overwritten_where_autograd_did_not_look_has_no_partial_that_could_be_wrong():
    def f(x):
        u = x * 2
        s = u**2
        u.data.mul_(5)
        return s

    rec = probed(f, 1.0)
    assert inputs(rec) == {"u": ["x"], "s": ["u"]}
    assert partials(rec) == contributions(rec) == {}  # autograd says 20, and the recorded u, 2, would give 4


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
        "cut": "detached", "quiet": "no_grad", "made": "frozen"
    }  # fmt: skip
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
    assert partials(rec) == {
        "∂u/∂x": 2, "∂v/∂u": 3, "∂w/∂u": 1, "∂w/∂v": 1, "∂return/∂x": 8, "∂return/∂w": 1
    }  # fmt: skip
    assert contributions(rec)["x←u"] == 80
    sums = rec.path_sums
    assert (sums.agree, sums.judged, sums.unjudged) == (True, 4, ("u",))
    assert "not compared (a hook of yours, a nested tensor, or terms that cancel or underflow): u" in str(rec)


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


# nothing is disturbed and nothing is left behind


def noisy(x, w):
    u = F.dropout(x * w, 0.5)
    v = checkpoint(lambda u: F.dropout(torch.tanh(u), 0.5), u, use_reentrant=False)
    return (v * torch.rand(3)).sum() + u.sum()


@pytest.mark.parametrize("asked", [True, "full"])
def test_outputs_gradients_and_random_numbers_are_those_without_partials(asked):
    recordings, states = [], []
    for choice in (False, asked):
        torch.manual_seed(3)
        recordings.append(bp.probe(noisy, partials=choice)(vector(), vector(2.0, 2.0, 2.0)))
        states.append(torch.get_rng_state())
    before, after = recordings
    assert torch.equal(*states)
    assert bits(before.result) == bits(after.result)
    assert list(before) == list(after)
    assert before.backward_order() == after.backward_order()
    assert inputs(before) == inputs(after)
    for name, entry in before.items():
        assert same(entry.held, after[name].held), name
        assert same(entry.held_grad, after[name].held_grad), name
    assert before.path_sums is None
    assert {edge.partial for entry in before.values() for edge in entry.inputs} == {None}
    agrees(after, len(after.grads()))


def test_grad_is_not_touched():
    x, kept = torch.tensor(3.0, requires_grad=True), []
    x.grad = torch.tensor(42.0)
    w = torch.tensor(2.0, requires_grad=True)

    def f(x, w):
        u = x * w
        u.retain_grad()
        kept.append(u)
        v = u * 5
        return v * u

    probed(f, x, w)
    assert x.grad.item() == 42
    assert w.grad is None
    assert kept[0].grad.item() == 60  # as one backward pass leaves it


def test_the_graph_of_the_result_is_as_it_was():
    kept = []

    def f(x):
        u = x * x
        kept.append(u)
        v = torch.sin(u)
        return v

    x = torch.tensor(3.0, requires_grad=True)
    rec = probed(f, x)
    again = torch.autograd.grad(rec.result, [x, kept[0]])
    assert [gradient.item() for gradient in again] == [rec["x"].grad.item(), rec["u"].grad.item()]


class Failing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.calls = 0
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        ctx.calls += 1
        if ctx.calls == 2:
            raise RuntimeError("the second time")
        return gradient * 2


def test_nothing_is_left_behind_where_a_local_pass_raises():
    calls, kept = [], []

    def f(x):
        v = x * 3
        u = Failing.apply(v)
        u.register_hook(lambda gradient: calls.append(gradient.item()))
        r = u * 5
        kept.extend([v, u, r])
        return r

    x = torch.tensor(1.0, requires_grad=True)
    with pytest.raises(RuntimeError, match="the second time") as caught:
        probed(f, x)
    assert any(note.startswith("backprobe: raised while differentiating f") for note in caught.value.__notes__)
    assert calls == [5]
    gradients = torch.autograd.grad(kept[2], [x, *kept[:2]])
    assert [gradient.item() for gradient in gradients] == [30, 10, 5]
    assert calls == [5, 5]


def test_no_value_outlives_the_recording():
    held = []

    def f(x):
        u = x * 2
        u.register_hook(lambda gradient: gradient * 1)
        v = u.sin()
        held.extend([weakref.ref(u), weakref.ref(v)])
        return (v * v).sum()

    gc.collect()
    gc.disable()
    try:
        rec = probed(f, vector(), partials="full")
        held += [weakref.ref(rec["v"].partials["u"]), weakref.ref(rec["v"].contributions["u"])]
        assert held[2]() is not None
        del rec
        assert [ref() for ref in held] == [None] * 4
    finally:
        gc.enable()


def test_an_edge_that_was_recorded_holds_no_graph():
    rec = probed(toy, 3.0, 2.0, 1.0)
    for entry in rec.values():
        for edge in entry.inputs:
            assert not edge.partial.requires_grad
            assert not edge.contribution.requires_grad


# options and forms


def test_a_cotangent_scales_contributions_and_not_partials():
    def f(x, w):
        u = x * w
        return torch.stack([u, u * u])

    rec = probed(f, 3.0, 2.0, cotangent=[1.0, 10.0])
    assert rec["u"].grad.item() == 121
    assert rec["u"].partials["x"].item() == 2
    assert rec["u"].contributions["x"].item() == 242
    assert rec["return"].contributions["u"].item() == 121
    agrees(rec, 4)
    doubled = probed(lambda x: x * 2, 3.0, cotangent=7.0)
    assert doubled["return"].partials["x"].item() == 2
    assert doubled["return"].contributions["x"].item() == 14


def test_the_output_is_one_of_several():
    rec = probed(lambda x: (x * 2, x * 3), 2.0, of=1)
    assert partials(rec) == {"∂return.0/∂x": 2, "∂return.1/∂x": 3}
    assert contributions(rec) == {"x←return.1": 3}
    agrees(rec, 2)


@on(2.0, of=0, partials=True).gives(contributions={"x←u": 2}, judged=2)
def test_the_output_is_also_an_inner_value(x):
    u = x * 2
    v = u * 3
    return u, v


def test_an_output_that_is_an_argument():
    rec = probed(lambda x: x, 2.0)
    assert rec["x"].inputs == ()
    agrees(rec, 1)


def test_partials_can_be_differentiated_again():
    x = torch.tensor(2.0, requires_grad=True)
    rec = probed(lambda x: x**3, x, create_graph=True)
    (second,) = torch.autograd.grad(rec["return"].partials["x"], x, retain_graph=True)
    assert (rec["return"].partials["x"].item(), second.item()) == (12, 12)
    (second,) = torch.autograd.grad(rec["return"].contributions["x"], x)
    assert second.item() == 12
    agrees(rec, 2)


def test_blocks_can_be_differentiated_again():
    x = vector(1.0, 2.0).requires_grad_()
    rec = probed(lambda x: x**3, x, create_graph=True, partials="full", cotangent=[1.0, 1.0])
    (second,) = torch.autograd.grad(rec["return"].partials["x"].sum(), x)
    assert second.tolist() == [6, 12]


def test_a_model():
    model, tokens = small_gpt2()
    patterns = ["transformer.h.*.attn", "transformer.h.0", "transformer.wte.weight", "lm_head"]
    plain = bp.probe(model, patterns, of="loss")(tokens, labels=tokens)
    rec = bp.probe(model, patterns, of="loss", partials=True)(tokens, labels=tokens)
    assert {name: bits(entry.grad) for name, entry in plain.items()} == {
        name: bits(entry.grad) for name, entry in rec.items()
    }
    assert inputs(rec) == inputs(plain)
    agrees(rec, len(rec))
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(module._backward_hooks or module._forward_hooks for module in model.modules())


def test_selected_modules_lead_past_those_between():
    model, tokens = small_gpt2()
    rec = bp.probe(model, ["transformer.h.*"], of="loss", partials=True)(tokens, labels=tokens)
    assert inputs(rec)["transformer.h.1"] == ["transformer.h.0"]
    assert torch.equal(rec["transformer.h.1"].contributions["transformer.h.0"], rec["transformer.h.0"].grad)
    assert rec.outputs[0].partials["transformer.h.1"].shape == rec["transformer.h.1"].shape


def test_a_model_whose_parameters_are_frozen_in_part():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1))
    model[0].weight.requires_grad_(False)
    rec = probed(model, torch.ones(1, 2), of=lambda output: output.sum())
    assert inputs(rec)["0"] == ["0.bias"]
    assert "0.weight" not in contributions(rec)
    agrees(rec, len(rec.grads()))


@pytest.mark.parametrize("asked", [True, "full"])
def test_a_checkpoint_has_the_partials_of_the_same_without(asked):
    def block(u):
        return torch.tanh(u) * u

    def f(x):
        u = x * 2
        v = block(u)
        return v.sum()

    def checkpointed(x):
        u = x * 2
        v = checkpoint(block, u, use_reentrant=False)
        return v.sum()

    plain, rec = (probed(g, vector(), partials=asked, select=["x", "u", "v", "return"]) for g in (f, checkpointed))
    assert partials(rec) == partials(plain)
    assert contributions(rec) == contributions(plain)
    agrees(rec, 4)


@on(vector(1.0, 2.0), partials="full", select=["x", "slope", "cubes", "return"]).gives(partials={
    "∂slope/∂x": [18, 18], "∂cubes/∂x": [[3, 0], [0, 12]], "∂return/∂slope": 9, "∂return/∂cubes": [27, 27]
}, judged=4)  # fmt: skip
def test_transforms_inside_have_partials_at_their_ends(x):
    slope = torch.func.grad(lambda t: t**3)(x.sum())
    cubes = torch.func.vmap(lambda t: t**3)(x)
    return slope * cubes.sum()


def test_values_inside_a_transform_have_no_edges():
    rec = probed(lambda x: torch.func.grad(lambda t: t**3)(x) * x, 2.0)
    inside = [entry for entry in rec.values() if entry.status == "opaque"]
    assert [entry.name for entry in inside] == ["/<lambda>:t", "/<lambda>:return"]
    assert {entry.inputs for entry in inside} == {()}
    assert partials(rec) == {"∂return/∂x": 36}


def test_partials_are_refused_with_another_strategy():
    assert message(bp.BadOption, lambda: bp.probe(toy, partials=True, strategy="hooks")) == (
        "partials are taken at gradient edges\n"
        "  asked: partials=True, strategy='hooks'\n"
        "  why:   the hooks of the other strategies would take part in every local pass\n"
        '  next:  strategy="edges"'
    )


# on disk


def everything(x, w, table):
    z = torch.view_as_real((x + 0j) * (1 + 2j))
    u = x * w
    u[0] = 7.0
    e = F.embedding(torch.tensor([0, 2]), table, sparse=True)
    unused = u * 2
    return u.sum() + z.sum() + e.sum()


@pytest.mark.parametrize("asked", [True, "full"])
def test_all_of_it_comes_back_from_disk(asked, tmp_path):
    before = probed(everything, vector(), vector(), torch.ones(3, 1), partials=asked)
    after = round_trip(before, tmp_path)
    check_entries(before, after)
    assert after.path_sums == before.path_sums
    for name, entry in before.items():
        assert after[name].reads == entry.reads
        assert after[name].source == entry.source
        for edge, loaded in zip(entry.inputs, after[name].inputs, strict=True):
            assert loaded.name == edge.name
            assert same(edge.partial, loaded.partial)
            assert same(edge.contribution, loaded.contribution)
    assert any(entry.partials for entry in after.values())


def test_it_comes_back_as_numpy_arrays(tmp_path):
    before = probed(everything, vector(), vector(), torch.ones(3, 1), partials="full")
    after = round_trip(before, tmp_path, to="numpy")
    assert after.path_sums == before.path_sums
    for name, entry in before.items():
        assert after[name].reads == entry.reads
        for kind in ("partials", "contributions"):
            found = getattr(after[name], kind)
            assert list(found) == list(getattr(entry, kind))
            for by, expected in getattr(entry, kind).items():
                assert isinstance(found[by], np.ndarray)
                assert np.array_equal(found[by], expected.numpy())


def test_a_difference_that_is_infinite_and_what_is_not_judged_come_back(tmp_path):
    Broken = custom(
        "Broken", lambda x: x.clone(), lambda gradient, x: gradient if gradient.item() == 1 else gradient * INF
    )

    def f(x):
        u = Broken.apply(x)
        v = u * 3
        v.register_hook(lambda gradient: gradient)
        return v

    before = probed(f, 1.0)
    assert (before.path_sums.difference, before.path_sums.worst, before.path_sums.unjudged) == (INF, "x", ("v",))
    assert round_trip(before, tmp_path).path_sums == before.path_sums
    json.loads((tmp_path / "rec" / "recording.json").read_text())


def test_a_recording_without_partials_comes_back_without(tmp_path):
    after = round_trip(bp.probe(toy)(3.0, 2.0, 1.0), tmp_path)
    assert after.path_sums is None
    assert {edge.partial for entry in after.values() for edge in entry.inputs} == {None}


@on(torch.tensor(3.0), select=["x", "u#1"], partials=True).gives(partials={"∂u#1/∂x": 2, "∂return/∂u#1": 14}, judged=3)
def test_a_version_that_is_not_selected_does_not_stand_between_two_that_are(x):
    u = x * 2
    u += 1
    return u**2


def test_rounding_in_a_coarser_dtype_on_the_way_is_no_disagreement():
    def f(x, w):
        u = x.float() * w.float()
        return u.double() * 1.1

    args = (torch.tensor(1.23456789, dtype=torch.float64), torch.tensor(2.3456789, dtype=torch.float64))
    assert bp.probe(f, partials=True)(*args).path_sums.agree


def test_what_is_opaque_is_not_judged_to_agree():
    def f(x):
        x = x.clone().detach().requires_grad_()
        y = (x - 1) ** 2
        with torch.no_grad():
            x -= 0.1
        return y

    rec = bp.probe(f, partials=True)(torch.tensor(3.0))
    assert rec.path_sums.judged == len(rec.grads()) == 1
