"""Two recordings compared, where zeros and equal numbers hide a fault, or another order looks like one."""

import pytest
import torch
from torch import nn

import backprobe as bp


def compared(first, second, *arguments):
    return bp.diff(bp.probe(first)(*arguments), bp.probe(second)(*arguments))


def behind_a_head(turned):
    def program(x, w, head):
        h = torch.tanh(x @ w).mT if turned else torch.tanh(x @ w)
        y = h @ head
        loss = (y - x).square().sum()
        return loss

    return program


def test_a_turned_value_is_named_though_the_weight_behind_it_is_zero():
    torch.manual_seed(0)
    x, w = torch.randn(4, 4), torch.randn(4, 4)
    report = compared(behind_a_head(False), behind_a_head(True), x, w, torch.zeros(4, 4))
    assert report.first.name == "h" and report.first_backward is None
    assert not any("order of axes" in note for note in report.notes)


def heads(is_last):
    def program(x, w, out):
        mixed = (x @ w).unflatten(-1, (2, 4)) if is_last else (x @ w).unflatten(-1, (2, 4)).transpose(1, 2)
        joined = (mixed if is_last else mixed.transpose(1, 2)).flatten(2) @ out
        y = x + joined
        return y.square().sum()

    return program


def test_another_order_of_axes_before_a_weight_of_zeros_is_no_difference():
    torch.manual_seed(0)
    report = compared(heads(False), heads(True), torch.randn(3, 5, 8), torch.randn(8, 8), torch.zeros(8, 8))
    assert report.ok and report.complete, str(report)


def test_nothing_is_said_of_a_value_that_no_number_depends_on():
    """The value is multiplied by a constant that is zero: whether its order is meant, nothing shows."""

    def dropped(turned):
        def program(x):
            h = torch.tanh(x.roll(1, 0) @ x.mT) if turned else torch.tanh(x @ x.roll(1, 0).mT)
            weights = (h * 0).softmax(-1)
            return (weights * x).sum()

        return program

    torch.manual_seed(0)
    report = compared(dropped(False), dropped(True), torch.randn(4, 4))
    assert report.ok and not report.complete
    assert any("nothing computed from them shows if that is meant: 'h'" in note for note in report.notes)
    assert not any("agrees: 'h'" in note for note in report.notes)


class Adapted(nn.Module):
    """A residual branch behind a layer of zeros, as adapters begin."""

    def __init__(self, eps):
        super().__init__()
        self.norm, self.down, self.up = nn.LayerNorm(6, eps=eps), nn.Linear(6, 6), nn.Linear(6, 6)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return x + self.up(self.down(self.norm(x)))


def test_a_layer_that_differs_before_zeros_is_not_called_another_value():
    """With the conventions of two libraries, values of one name may be two: not if nothing depends on them."""
    torch.manual_seed(0)
    first, second, x = Adapted(1e-5), Adapted(0.5), torch.randn(3, 6)
    second.load_state_dict(first.state_dict())
    one, two = (bp.probe(each, of=lambda y: y.square().mean())(x) for each in (first, second))
    report = bp.diff(one, two, convention=("pytorch", "pytorch"))
    assert report.first.name == "norm", str(report)


def test_axes_that_one_program_has_split_are_put_in_order():
    def first(x, w):
        k = (x @ w).unflatten(-1, (4, 2)).transpose(1, 2)
        return k.transpose(1, 2).flatten(2).square()

    def second(x, w):
        k = (x @ w).unflatten(-1, (2, 2, 2))
        return k.flatten(2).square()

    def joined(x, w):  # batch and heads are one axis, as for torch.bmm
        k = (x @ w).unflatten(-1, (4, 2)).transpose(1, 2).flatten(0, 1)
        return k.unflatten(0, (3, 4)).transpose(1, 2).flatten(2).square()

    torch.manual_seed(0)
    arguments = torch.randn(3, 5, 8), torch.randn(8, 8)
    records = [bp.probe(each, of=torch.sum)(*arguments) for each in (first, second, joined)]
    for one, two in ((0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)):
        report = bp.diff(records[one], records[two])
        assert report.ok and report.complete, str(report)


def mixing(x, query, key, value):
    return (x @ query @ (x @ key).mT).softmax(-1) @ (x @ value)


def mixing_of_other_names(x, v, q, k):
    return mixing(x, q, k, v)


def test_arguments_of_one_shape_are_paired_by_their_numbers():
    torch.manual_seed(0)
    x, q, k, v = (torch.randn(6, 6) for _ in range(4))
    one = bp.probe(mixing, of=torch.sum)(x, q, k, v)
    two = bp.probe(mixing_of_other_names, of=torch.sum)(x, v, q, k)
    report = bp.diff(one, two)
    assert report.ok and report.complete, str(report)
    assert {row.a.name: row.b.name for row in report.rows}["key"] == "k"
    assert any("matched by shape and numbers: 'query' with 'q'" in note for note in report.notes)


class Chain(nn.Module):
    def __init__(self, *names):
        super().__init__()
        self.names = names
        for name in names:
            setattr(self, name, nn.Linear(4, 4))

    def forward(self, x):
        for name in self.names:
            x = getattr(self, name)(x).tanh()
        return x.sum()


@pytest.mark.parametrize("order", [("in_", "mid", "out"), ("mid", "in_", "out"), ("out", "mid", "in_")])
def test_weights_in_the_wrong_layers_of_a_chain_are_a_difference(order):
    """Which layer computes with the result of which is known: numbers do not pair them otherwise."""
    torch.manual_seed(0)
    first, second, x = Chain("a", "b", "c"), Chain("in_", "mid", "out"), torch.randn(5, 4)
    for own, other in zip("abc", order, strict=True):
        getattr(second, other).load_state_dict(getattr(first, own).state_dict())
    report = bp.diff(bp.probe(first)(x), bp.probe(second)(x))
    wrong = [f"{own}.weight" for own, other, right in zip("abc", order, second.names, strict=True) if other != right]
    assert report.ok if not wrong else report.first.name == wrong[0], str(report)


def test_equal_numbers_are_paired_in_order():
    torch.manual_seed(0)
    x, ones = torch.randn(4, 4), torch.ones(4, 4)
    one = bp.probe(lambda x, a, b: ((x @ a).tanh() @ b).sum())(x, ones, ones.clone())
    two = bp.probe(lambda x, first, second: ((x @ first).tanh() @ second).sum())(x, ones, ones.clone())
    assert bp.diff(one, two).ok


def test_elements_of_a_complex_value_are_counted_once():
    def program(turn):
        def turned(x):
            z = x * torch.tensor([1 + 1j, 2, 3, 4j]) * torch.tensor([turn, 1, 1, turn])
            return z.abs().sum()

        return turned

    report = compared(program(1 + 0j), program(1j), torch.ones(4))
    assert any("2 of 4 elements are beyond the floor" in fact for fact in report.findings[0].facts)
