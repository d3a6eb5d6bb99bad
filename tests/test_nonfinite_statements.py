"""Births in what no expression computes by itself: writes in place, items of containers, and unrecorded numbers."""

import pytest
import torch
from torch import nn, tensor

import backprobe as bp
from birth_forms import BIRTHS, in_block, in_both, in_function
from goldens import golden
from remedied import INSTEAD


def item_of_a_write(x):
    y = torch.zeros(2) + x
    y[0] = torch.log(x[0])
    return y.sum()


def item_of_an_update(x):
    y = x * 1
    y[1] /= x[0]
    return y.sum()


def slice_in_a_loop(x):
    y = torch.zeros(2, 2)
    for i in range(2):
        y[i] = x / x[i]
    return y.sum()


def through_a_slice(x):
    y = x.clone()
    v = y[:1]
    v.log_()
    return y.sum()


def by_a_function(x):
    y = x.clone()
    torch.log_(y)
    return y.sum()


def by_a_chain(x):
    y = x.clone()
    y.mul_(2).log_()
    return y.sum()


def items_of_a_list(x):
    parts = [1 / v for v in x]
    return torch.stack(parts).sum()


def items_of_a_dictionary(x):
    parts = {i: v / v for i, v in enumerate(x)}
    return parts[0] + parts[1]


def items_within(x):
    return torch.stack([torch.log(v) for v in x]).sum()


def added_up(x):
    return sum(torch.log(v) for v in x)


def counted(x):
    return torch.stack([torch.log(x[i]) for i in range(2)]).sum()


def both_of_two(x):
    a, b = x * 2, x / x
    return a.sum() + b.sum()


def deep_in_a_container(x):
    held = {"p": x, "q": [x, 1 / x]}
    return held["p"].sum() + held["q"][1].sum()


def returned_as_one_of_two(x):
    def pair(v):
        return v / v, v

    a, b = pair(x)
    return a.sum() + b.sum()


STATEMENTS = [
    (item_of_a_write, "at"),
    (item_of_an_update, "by_zero"),
    (slice_in_a_loop, "zero_zero"),
    (through_a_slice, "at"),
    (by_a_function, "at"),
    (by_a_chain, "at"),
    (items_of_a_list, "by_zero"),
    (items_of_a_dictionary, "zero_zero"),
    (items_within, "at"),
    (added_up, "at"),
    (counted, "at"),
    (both_of_two, "zero_zero"),
    (deep_in_a_container, "by_zero"),
    (returned_as_one_of_two, "zero_zero"),
]


@in_both
@pytest.mark.parametrize(("program", "why"), STATEMENTS)
def test_the_reason_is_found_in_the_statement(program, why, explained):
    birth = explained(program, tensor([0.0, 2.0])).of_kind(*BIRTHS)[0]
    assert (birth.kind, birth.fields.get("why")) == ("born", why)


@in_both
def test_a_write_has_a_birth_of_its_own_beside_one_that_was_there(explained):
    def program(x):
        y = x * 1
        y[0] = torch.log(x[0])
        y[1] /= x[0]
        return y.sum()

    reasons = [one.fields.get("why") for one in explained(program, tensor([0.0, 2.0])).of_kind("born")]
    assert reasons == ["at", "by_zero", "inf_minus_inf"]


def rooted_in_place(x):
    y = x * 1
    y.sqrt_()
    return y.sum()


def cured_in_place(x):
    y = x * 1
    y.copy_(torch.sqrt(y.clone() + 1e-12))
    return y.sum()


@in_both
def test_the_remedy_of_a_write_writes_too(explained):
    (birth,) = explained(rooted_in_place, tensor([0.0, 2.0])).of_kind("born_backward")
    said = INSTEAD.match(birth.remedy)
    assert (said["instead"], said["formula"]) == ("y.copy_(torch.sqrt(y.clone() + 1e-12))", "y.sqrt_()")
    assert explained(cured_in_place, tensor([0.0, 2.0])).ok


@in_both
def test_a_divisor_that_is_written_out_has_no_bound(explained):
    birth = explained(lambda x: (x / 0).sum(), tensor([1.0, 2.0])).of_kind("born")[0]
    assert (birth.fields["why"], birth.remedy) == ("by_zero", "")


# numbers that a line writes, beside those that it makes


def row_masked(net, x, mask):
    a = net(x).masked_fill(~mask, float("-inf")).softmax(-1)
    return a.sum()


def masked_too_late(net, x, mask):
    a = torch.exp(100 * net(x).masked_fill(~mask, float("-inf")))
    return a.sum()


def masked_by_nan(net, x, mask):
    a = net(x).masked_fill(~mask, float("nan"))
    return a.sum()


WRITTEN_BESIDE = [
    (row_masked, "NaN", "infinite_row"),
    (masked_too_late, "Inf", ""),
    (masked_by_nan, "NaN", "written_out"),
]


@pytest.mark.parametrize(("program", "word", "why"), WRITTEN_BESIDE)
def test_a_number_that_is_written_is_the_cause_only_if_it_is_what_was_found(program, word, why):
    """The operand is the result of a model, which a block does not know unless it has a name."""
    net, mask = nn.Linear(2, 2, bias=False), tensor([[True, True], [False, False]])
    net.weight.data.copy_(torch.eye(2))
    with bp.probe(nonfinite=True) as rec:
        loss = program(net, torch.ones(2, 2), mask)
        loss.backward()
    first = bp.explain(rec).findings[0]
    assert (first.fields["word"], first.fields.get("why", "")) == (word, why)


@in_both
def test_an_overflow_beside_a_mask_that_is_written_is_an_overflow(explained):
    def program(x):
        a = torch.exp(x.masked_fill(x < 1, float("-inf")))
        return a.sum()

    found = explained(program, tensor([0.0, 200.0]))
    assert [one.fields["why"] for one in found.of_kind("born") if one.name.endswith("a")] == ["overflow_of"]


# zero gradients, and by what they are multiplied


def inf_as_a_factor(x):
    y = x * torch.tensor([float("inf"), 1.0])
    return torch.where(torch.tensor([False, True]), y, x).sum()


def nan_as_a_factor(x):
    y = torch.tensor([float("nan"), 1.0]) * x
    return torch.nan_to_num(y).sum()


def nan_within_a_power(x):
    y = (x - torch.tensor([float("nan"), 1.0])) ** 2
    return y[torch.tensor([False, True])].mean()


def inf_within_a_power(x):
    y = (x - torch.tensor([float("inf"), 1.0])) ** 2
    return y[torch.tensor([False, True])].mean()


@in_both
@pytest.mark.parametrize(
    ("program", "why"),
    [
        (inf_as_a_factor, "zero_gradient_inf"),
        (nan_as_a_factor, "zero_gradient_nan"),
        (nan_within_a_power, "zero_gradient_nan"),
        (inf_within_a_power, "zero_gradient_inf"),
    ],
)
def test_what_a_zero_gradient_meets(program, why, explained):
    report = explained(program, tensor([0.0, 2.0]))
    assert "it is written there" in str(report)
    assert [one.fields["why"] for one in report.of_kind("born_backward")] == [why]


# numbers that are not recorded


class Scaled(nn.Module):
    def __init__(self, scale=0.0):
        super().__init__()
        self.scale, self.options = scale, {"scale": scale}

    def forward(self, x):
        y = x / self.scale
        return y.sum()


class WithOptions(Scaled):
    def forward(self, x):
        y = x / self.options["scale"]
        return y.sum()


class Logged(Scaled):
    def forward(self, x):
        y = torch.log(x * self.scale)
        return y.sum()


@pytest.mark.parametrize("explained", [in_function, in_block])
@pytest.mark.parametrize(
    ("net", "why"), [(Scaled(), "by_nearly_zero"), (Logged(), "at"), (Scaled(1e-45), "by_nearly_zero")]
)
def test_what_an_unrecorded_number_must_be(net, why, explained):
    birth = explained(lambda x: net(x), tensor([1.0, 2.0])).of_kind(*BIRTHS)[0]
    assert (birth.kind, birth.fields.get("why")) == ("born", why)
    assert why == "at" or "`self.scale` is not recorded" in birth.facts
    assert "not recorded" not in birth.headline


@pytest.mark.parametrize("scale", [float("nan"), float("inf")])
def test_a_number_that_may_have_been_nan_is_not_said_to_be_zero(scale):
    report = in_block(lambda x: Scaled(scale)(x), tensor([1.0, 2.0]))
    assert report.ok == (scale == float("inf"))
    assert not any("division" in one.headline for one in report.findings)


def test_a_number_is_bounded_by_python():
    birth = in_function(lambda x: WithOptions(0)(x), tensor([1.0, 2.0])).of_kind("born")[0]
    assert birth.name == "/WithOptions:y"
    golden("nonfinite", birth)


def test_a_number_that_may_be_negative_is_not_bounded_from_below():
    birth = in_function(lambda x: WithOptions(0.0)(x), tensor([1.0, 2.0])).of_kind("born")[0]
    assert "max(" not in birth.remedy


def written_to_unseen(x):
    y = x * 1
    y.data.div_(0)
    return y.sum()


@in_both
def test_what_is_finite_by_the_recorded_values_is_not_said_to_be_born(explained):
    report = explained(written_to_unseen, tensor([0.0, 2.0]))
    (found,) = report.of_kind("unknown")
    golden("nonfinite", found)


# what is read in a branch that is left out, what a later operation takes away, and what leaves the range


def product_left_out(x):
    y = torch.where(x == 0, torch.zeros_like(x), x.log() * x)
    return y.sum()


def test_a_block_gives_the_reason_of_the_gradient_and_not_of_the_value():
    births = in_block(product_left_out, tensor([0.0, 1.0])).of_kind("born_backward")
    assert [one.fields["why"] for one in births] == ["zero_gradient_part", "pole_zero"]
    golden("nonfinite", births[0])


@in_both
def test_a_pole_whose_gradient_a_clamp_leaves_out(explained):
    (birth,) = explained(lambda x: torch.acos(x.clamp(-1, 1)).sum(), tensor([0.5, 2.0])).of_kind("born_backward")
    assert birth.fields["why"] == "pole"


@in_both
def test_a_quotient_that_leaves_the_range(explained):
    def program(x):
        logits = x / 1e-40
        return nn.functional.cross_entropy(logits[None], torch.tensor([0]))

    reasons = [one.fields.get("why") for one in explained(program, tensor([1.0, 2.0])).of_kind("born")]
    assert reasons == ["overflow_of", "infinite_row"]
