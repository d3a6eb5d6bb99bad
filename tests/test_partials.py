"""Local partials, contributions, and whether they sum to the gradients."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.autograd.functional import jacobian

from asked import agrees, contributions, inputs, on, partials
from custom import custom
from partial_cases import INF, probed, vector

WEIGHTS = torch.tensor([5.0, 6.0, 7.0])


# what a local partial is


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


def test_partials_are_those_of_their_operand():
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
        "∂a/∂x": [1, 0],
        "∂b/∂x": [0, 1],
        "∂c/∂x": [1, 0],
        "∂d/∂x": [0, 1],
        "∂best/∂x": [0, 1],
        "∂return/∂a": [3],
        "∂return/∂b": [2],
        "∂return/∂c": 3,
        "∂return/∂d": 2,
        "∂return/∂best": [2],
        "∂return/∂ordered.0": [1, 0],
    }
    assert contributions(rec)["x←ordered.0"] == [1, 0]
    agrees(rec, 8)


@on(vector(2.0, 3.0), partials=True).gives(
    partials={"∂a/∂x": [2, 0], "∂b/∂x": [0, 2], "∂s/∂a": 6, "∂s/∂b": 4, "∂t/∂b": 24, "∂t/∂s": 6}, judged=5
)
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


@on(3.0, 2.0, partials=True).gives(
    partials={"∂u#0/∂x": 2, "∂u#0/∂w": 3, "∂u#1/∂u#0": 1, "∂u#2/∂w": 7, "∂u#2/∂u#1": 2, "∂return/∂u#2": 28}, judged=6
)
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
        "∂u#0/∂x": [[2, 0, 0], [0, 2, 0], [0, 0, 2]],
        "∂v#0/∂u#0": [1, 0, 0],
        "∂u#1/∂u#0": [[3, 0, 0], [0, 1, 0], [0, 0, 1]],
        "∂return/∂u#1": [5, 6, 7],
    }
    assert contributions(rec) == {"x←u#0": [30, 12, 14], "u#0←u#1": [15, 6, 7], "v#0←u#1": 15, "u#1←return": [5, 6, 7]}
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
