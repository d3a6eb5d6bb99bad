"""Two recordings compared: what is blamed, forward and backward, and what counts as a difference."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import backprobe as bp
from diff_cases import W, X, f, recorded
from goldens import golden


class Wrong(torch.autograd.Function):
    """The sine, with half of its derivative."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, gradient):
        return 0.5 * gradient * torch.cos(ctx.saved_tensors[0])


def facts(finding):
    return "\n".join(finding.facts)


# what is blamed


def test_a_recording_agrees_with_itself_and_with_another_run():
    a = recorded(f)
    for b in (a, recorded(f)):
        report = bp.diff(a, b)
        assert report.ok and report.complete and report.first is report.first_backward is None and report.findings == ()
        golden("diff", report)


def test_the_first_value_is_blamed_and_gradients_that_follow_from_it_are_not():
    def g(x, w):
        u = x * w
        v = torch.cos(u)
        y = v + u
        loss = y.sum()
        return loss

    report = bp.diff(recorded(f), recorded(g))
    first = report.first
    assert (first.name, first.other, first.kind, first.direction) == ("v", "v", "value", "forward")
    assert first.source.text.strip() == "v = torch.cos(u)" and "v = torch.sin(u)" in facts(first)
    golden("diff", first)
    reference = np.sin((X * W).numpy())
    assert math.isclose(
        first.error, np.linalg.norm(np.cos((X * W).numpy()) - reference) / np.linalg.norm(reference), rel_tol=1e-5
    )
    assert report.first_backward is None and report.ok is False and report.amplifiers == ()
    golden("diff", report)


def test_a_wrong_backward_is_blamed_by_the_line_that_it_flows_back_from():
    def g(x, w):
        u = x * w
        v = Wrong.apply(u)
        y = v + u
        loss = y.sum()
        return loss

    report = bp.diff(recorded(f), recorded(g))
    found = report.first_backward
    assert report.first is None and report.ok is False
    assert (found.name, found.kind, found.direction) == ("u", "gradient", "backward")
    golden("diff", found)
    assert "v = Wrong.apply(u)" in facts(found) and "bp.check" in found.remedy
    golden("diff", report)


def test_a_value_and_a_gradient_that_have_nothing_to_do_with_each_other_are_both_blamed():
    def right(x, w):
        a = torch.sin(x)
        b = torch.cos(w)
        c = b * 3
        return a.sum() + c.sum()

    def wrong(x, w):
        a = Wrong.apply(x)
        b = torch.cos(w) * 2
        c = b * 3
        return a.sum() + c.sum()

    report = bp.diff(recorded(right), recorded(wrong))
    assert report.first.name == "b" and report.first_backward.name == "x"
    assert report.first_backward.source.text.strip() == "a = Wrong.apply(x)"
    assert not any("none is blamed" in note for note in report.notes)


def test_each_value_that_differs_by_itself_is_an_amplifier():
    def wrong(x, w):
        u = x * w * 2
        v = torch.sin(x)
        y = v + u
        loss = y.sum()
        return loss

    def right(x, w):
        u = x * w
        v = torch.cos(x)
        y = v + u
        loss = y.sum()
        return loss

    report = bp.diff(recorded(right), recorded(wrong))
    assert report.first.name == "u"
    assert [(one.name, one.direction) for one in report.amplifiers] == [("v", "forward")]
    assert report.findings == (report.first, *report.amplifiers)


def test_unequal_arguments_and_parameters_come_before_what_is_computed():
    report = bp.diff(recorded(f), recorded(f, X, W + 1))
    assert (report.first.kind, report.first.name) == ("argument", "w")
    golden("diff", report.first)
    torch.manual_seed(0)
    a, b = nn.Linear(3, 2), nn.Linear(3, 2)
    report = bp.diff(*(recorded(model, X, of=torch.sum) for model in (a, b)))
    assert (report.first.kind, report.first.name) == ("parameter", "weight")
    golden("diff", report.first)


def test_a_parameter_that_both_recordings_hold_is_said_to_be_the_same():
    """What was written to it between the two is in both."""
    model = nn.Linear(3, 1)
    a = bp.probe(model, of=torch.sum)(X)
    model.bias.data += 1
    found = bp.diff(a, bp.probe(model, of=torch.sum)(X)).first
    assert "'bias' (the same tensor)" in facts(found)


def test_a_value_that_was_overwritten_since_is_not_compared():
    model = nn.Linear(3, 1)
    a = bp.probe(model, of=torch.sum)(X)
    with torch.no_grad():
        model.bias += 1
    report = bp.diff(a, bp.probe(model, of=torch.sum)(X))
    assert [(one.kind, one.name) for one in report] == [("value", "return")]
    golden("diff", report)
    assert report.first.name == "return"
    with torch.no_grad():
        model.bias -= 1
    report = bp.diff(a, bp.probe(model, of=torch.sum)(X))
    assert report.ok and not report.complete


def test_a_line_that_lets_no_gradient_through_is_named():
    def g(x, w):
        u = x * w
        v = torch.sin(u.detach())
        y = v + u
        loss = y.sum()
        return loss

    report = bp.diff(recorded(f), recorded(g))
    assert report.first is None and report.first_backward.kind == "status" and report.first_backward.name == "v"
    golden("diff", report.first_backward)
    other = bp.diff(recorded(g), recorded(f)).first_backward
    golden("diff", other)


def test_a_use_that_is_missing_in_backward_is_named():
    def g(x, w):
        u = x * w
        v = torch.sin(u)
        y = v + u.detach()
        loss = y.sum()
        return loss

    found = bp.diff(recorded(f), recorded(g)).first_backward
    assert found.name == "u"
    golden("diff", facts(found))
    assert found.source.text.strip() == "y = v + u.detach()"


# what is a difference


def changed(rule):
    """The report on a program whose value ``v`` goes through a rule."""

    def right(x):
        v = x * 1
        return v.sum()

    def wrong(x):
        v = rule(x)
        return v.sum()

    x = torch.linspace(-1, 2, 16).reshape(4, 4)
    return bp.diff(bp.probe(right)(x), bp.probe(wrong)(x)).first


@pytest.mark.parametrize(
    ("rule", "kind", "seen"),
    [
        (lambda x: 0.5 * x, "value", "the second is 0.5 × the first"),
        (lambda x: -x, "value", "the second is the first with the opposite sign"),
        (lambda x: x.T, "value", "the second is the transpose of the first"),
        (lambda x: x.roll(1), "value", "the second has the numbers of the first in another order"),
        (lambda x: x.bfloat16().float(), "value", "all numbers of the second are bfloat16 numbers, and not those of"),
        (lambda x: x.double(), "dtype", ""),
        (lambda x: x.reshape(2, 8), "shape", ""),
        (lambda x: x + torch.eye(4) * torch.tensor([0, 0, 1.0, 0]), "value", "1 of 16 elements is beyond the floor"),
        (lambda x: torch.where(x > 1.9, torch.nan, x), "value", "only one is finite at [3, 3]: 2 in the first, nan in"),
    ],
)
def test_each_kind_of_difference_says_what_it_is(rule, kind, seen):
    found = changed(rule)
    assert found.name == "v" and found.kind == kind and seen in facts(found)


def test_differences_of_shape_and_dtype_are_in_the_headline():
    golden("diff", changed(lambda x: x.reshape(2, 8)))
    golden("diff", changed(lambda x: x.double()))


def test_a_dtype_that_follows_from_that_of_the_arguments_is_no_difference():
    bp.diff(recorded(f), recorded(f, X.double(), W.double())).assert_ok(strict=True)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_nan_and_inf_equal_themselves_in_the_same_place(bad):
    spoilt = X.clone()
    spoilt[1] = bad
    bp.diff(recorded(f, spoilt, W), recorded(f, spoilt, W)).assert_ok(strict=True)
    found = bp.diff(recorded(f, spoilt, W), recorded(f, X, W)).first
    assert found.name == "x" and found.error == math.inf and found.headline == "the argument 'x' differs"
    assert found.measure.clashes == 1 and found.measure.at == (1,)


def test_infinities_of_unlike_signs_are_not_said_to_be_finite():
    one, other = X.clone(), X.clone()
    one[1], other[1] = math.inf, -math.inf
    found = bp.diff(recorded(f, one, W), recorded(f, other, W)).first
    assert (found.kind, found.name) == ("argument", "x")
    golden("diff", found)


def test_whole_numbers_are_equal_or_not():
    def g(x, big):
        at = x.argmax()
        far = big + (at > 5)
        return x[at] * 2

    a, b = torch.arange(8.0), torch.arange(8.0).flip(0)
    big = torch.tensor([2**60])
    same, other = recorded(g, a, big), recorded(g, a + 1e-6, big + 1)
    found = bp.diff(same, other).first
    assert (found.name, found.excess) == ("big", math.inf)  # which double precision does not tell apart
    found = bp.diff(same, recorded(g, b, big)).first
    assert found.name == "x"
    assert "at" in {row.a.name for row in bp.diff(same, recorded(g, b, big)).rows if row.value.kind}


def test_numbers_of_python_are_compared_and_texts_are_not():
    def g(x, scale, mode):
        half = scale / 2
        return (x * half).sum()

    report = bp.diff(recorded(g, X, 3.0, "a", wrt="x"), recorded(g, X, 4.0, "b", wrt="x"))
    assert report.first.name == "scale" and "mode" not in {one.name for one in report.findings}


def test_the_masks_of_attention_do_not_hide_what_is_beside_them():
    lowest = torch.finfo(torch.float32).min

    def masked(x):
        s = x + torch.full((3,), lowest).index_fill(0, torch.tensor([0, 1]), 0.0)
        return s.softmax(-1)[0]

    def wrong(x):
        s = x * 1.01 + torch.full((3,), lowest).index_fill(0, torch.tensor([0, 1]), 0.0)
        return s.softmax(-1)[0]

    assert bp.diff(bp.probe(masked)(X), bp.probe(wrong)(X)).first.name == "s"


def test_sums_that_cancel_have_a_floor_of_their_own():
    """The gradient of a bias before a softmax is zero but for rounding, and not the same in two right programs."""

    def right(x, b):
        s = x + b
        p = s.softmax(-1)
        return p.square().sum()

    def other(x, b):
        s = x + b
        p = s.exp() / s.exp().sum(-1, keepdim=True)
        return p.square().sum()

    x = torch.randn(64, 16, generator=torch.Generator().manual_seed(0))
    a, b = (recorded(function, x, torch.zeros(1)) for function in (right, other))
    assert abs(a["b"].grad.item()) < 1e-5 > abs(b["b"].grad.item())
    assert bp.diff(a, b).ok and bp.diff(b, a).ok


def test_a_small_gradient_is_compared_as_a_large_one_is():
    def g(x, factor):
        u = x * 2
        v = torch.sin(u) * factor
        return (v * 1e-9).sum()

    found = bp.diff(recorded(g, X, 1.0, wrt="x"), recorded(g, X, 1.0, wrt="x"))
    assert found.ok and found.complete

    def wrong(x, factor):
        u = x * 2
        v = Wrong.apply(u) * factor
        return (v * 1e-9).sum()

    assert bp.diff(recorded(g, X, 1.0, wrt="x"), recorded(wrong, X, 1.0, wrt="x")).first_backward.name == "u"


def test_gradients_of_a_scaled_loss_are_compared_without_the_scale():
    def steps(scale):
        model = nn.Linear(3, 1)
        nn.init.ones_(model.weight)
        nn.init.ones_(model.bias)
        scaler = torch.amp.GradScaler("cpu", init_scale=scale)
        with bp.probe(model) as rec:
            scaler.scale(model(X).sum()).backward()
        return rec

    report = bp.diff(steps(4.0), steps(64.0))
    assert report.first_backward is None
    assert [(one.kind, one.name) for one in report] == [("value", "backward()")]
    golden("diff", report)
