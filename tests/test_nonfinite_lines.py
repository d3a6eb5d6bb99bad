"""Births in lines of several operations: the physical line, the part, and the same reason in every form."""

import pytest
import torch
from torch import nn, tensor

import backprobe as bp
from birth_forms import BIRTHS, in_block, in_both, in_function
from commands import invoked
from goldens import golden
from nonfinite_cases import CASES


def found(report, kind):
    (one,) = report.of_kind(kind)
    return one


# the physical line of a statement over several


def by_two_logarithms(x):
    h = torch.sigmoid(x)
    y = (torch.log(h) +
         torch.log(1 - h))  # fmt: skip
    return y.sum()


def by_a_chain(x):
    return (
        x.exp()
        .sum()
        .sub(2)
        .log()
    )  # fmt: skip


def by_a_quotient(x):
    ratio = (
        (x + 1)
        * ((x - 1)
           / (x - x))
    )  # fmt: skip
    return ratio.sum()


def by_an_argument(x):
    total = torch.add(
        torch.exp(x),
        torch.exp(
            x * 100
        ),
    )  # fmt: skip
    return total.sum()


SEVERAL = [
    (by_two_logarithms, [100.0, 0.0], "torch.log(1 - h)", "log(0)", 3),
    (by_a_chain, [0.0, 0.0], "x.exp().sum().sub(2).log()", "log(0)", 5),
    (by_a_quotient, [2.0, 3.0], "(x - 1) / (x - x)", "division by zero", 3),
    (by_an_argument, [1.0, 2.0], "torch.exp(x * 100)", "overflow: float32 ends at 3.40e38", 3),
]


@in_both
@pytest.mark.parametrize(("program", "numbers", "part", "why", "down"), SEVERAL)
def test_the_physical_line_and_the_part(program, numbers, part, why, down, explained):
    birth = explained(program, tensor(numbers)).of_kind("born")[0]
    first = program.__code__.co_firstlineno
    assert (birth.source.line, birth.source.text) == (first + down, part)
    assert birth.headline.endswith(f": {why}")


# the same reason in every form


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.program.__name__)
@pytest.mark.filterwarnings("ignore:var()")
def test_blocks_and_functions_give_one_reason(case):
    """But for the derivative of a rule of the program's own, for which a function runs again."""
    function, block = in_function(case.program, *case.args), in_block(case.program, *case.args)
    reasons = [[one.fields.get("why") for one in report.of_kind(*BIRTHS)] for report in (function, block)]
    known, unknown = ("derivative_bad", None) if case.program.__name__ == "custom" else ("", "")
    assert [unknown if one == known else one for one in reasons[0][: len(reasons[1])]] == reasons[1]
    assert bool(reasons[0]) == bool(reasons[1])


def test_a_script_gives_the_same_reason(tmp_path):
    program = tmp_path / "norm.py"
    program.write_text(
        "import torch\nx = torch.zeros(2, requires_grad=True)\nloss = torch.sqrt((x**2).sum())\nloss.backward()\n"
    )
    _, said, _ = invoked("explain", "--nonfinite", str(program))
    golden("nonfinite", said)
    assert "derivative of pow" not in said


def squares(x):
    return torch.sqrt((x**2).sum())


def squares_of_a_difference(x):
    return torch.sqrt(torch.pow(x - x, 2).mean())


def cubes(x):
    return ((x**3) ** 0.5).sum()


@in_both
@pytest.mark.parametrize("program", [squares, squares_of_a_difference])
def test_a_square_has_no_pole(program, explained):
    report = explained(program, tensor([0.0, 0.0]))
    assert [one.fields.get("why") for one in report.of_kind("born_backward")] == ["pole", "infinite_gradient"]


@in_both
def test_a_power_below_one_has(explained):
    birth = explained(cubes, tensor([0.0, 1.0])).of_kind("born_backward")[0]
    golden("nonfinite", birth)


def quotient(x):
    y = x / x.sum()
    return torch.where(y > 2, y, torch.sqrt(y)).sum()


@in_both
def test_a_quotient_has_its_pole_in_the_divisor(explained):
    report = explained(quotient, tensor([0.0, 1.0]))
    assert not any("derivative of div" in one.headline for one in report.findings)


# the branch of a where


def named_in_the_condition(x):
    y = torch.where(torch.abs(x) > 1, x, torch.sqrt(x))
    return torch.where(torch.sqrt(x) > 0.5, y, 3.0).sum()


def with_literals(x):
    return torch.where(x == 0, 0.0, torch.sqrt(x)).sum()


def bound_before(x):
    root = torch.sqrt(x)
    return torch.where(root > 0, root, 0.0).sum()


def nested(x):
    root = torch.sqrt(x)
    return torch.where(x > 2, torch.where(x > 1, x, root), x).sum()


def nested_and_selected_outside(x):
    root = torch.sqrt(x)
    return torch.where(x < 2, torch.where(x > 0, root, x), x).sum()


def filled(x):
    return torch.sqrt(x).masked_fill(x == 0, 1.0).sum()


def by_method(x):
    return torch.sqrt(x).where(x > 0, x).sum()


BRANCHES = [
    (named_in_the_condition, "y"), (with_literals, "torch.sqrt(x)"), (bound_before, "root"),
    (nested, "torch.where(x > 1, x, root)"), (nested_and_selected_outside, "root"), (filled, "torch.sqrt(x)"),
    (by_method, "torch.sqrt(x)"),
]  # fmt: skip


@in_both
@pytest.mark.parametrize(("program", "branch"), BRANCHES)
def test_the_branch_that_holds_the_value(program, branch, explained):
    birth = explained(program, tensor([0.0, 3.0])).of_kind("born_backward")[0]
    assert any(fact.startswith(f"it lies in the branch {branch} of ") for fact in birth.facts)
    assert birth.remedy


def selected_there(x):
    return torch.where(x < 1, torch.sqrt(x), x).sum()


def a_condition_alone(x):
    return (torch.sqrt(x) * torch.where(torch.sqrt(x) > 0, 1.0, 2.0)).sum()


@in_both
@pytest.mark.parametrize("program", [selected_there, a_condition_alone])
def test_no_branch_is_blamed_where_none_was_left_out(program, explained):
    births = explained(program, tensor([0.0, 3.0])).of_kind("born_backward")
    assert births
    assert not any("branch" in fact for one in births for fact in one.facts)


# each birth of its own is listed, and nothing else is said to spread


def two_in_one_line(x, y):
    a = torch.log(x)
    b = torch.where(y > 0, a, 1 / y)
    return b.sum() + a.sum()


@in_both
def test_a_value_that_holds_anothers_inf_may_have_its_own(explained):
    report = explained(two_in_one_line, tensor([0.0, 1.0]), tensor([1.0, 0.0]))
    assert [one.fields["why"] for one in report.of_kind("born")] == ["at", "by_zero", "inf_minus_inf"]


def test_what_no_path_leads_to_did_not_spread():
    x, y = tensor([0.0, 1.0], requires_grad=True), tensor([0.0, 1.0])
    with bp.probe(nonfinite=True) as rec:
        a = torch.log(x)
        b = 1 / y
        loss = a.sum()
        loss.backward()
    report = bp.explain(rec)
    assert [one.name for one in report.of_kind("born")] == ["a", "b"]
    (spread,) = report.of_kind("propagated")
    assert not any("b" in fact.partition(": ")[2].split(", ") for fact in spread.facts)
    assert b.isinf().any()


# an overflow that a later operation makes finite again


def healed_by_a_division(z):
    p = 1 / torch.exp(z).sum()
    return (p * z).sum()


def sigmoid_by_hand(x):
    p = 1 / (1 + torch.exp(x))
    return p.sum()


def softmax_by_hand(z):
    p = torch.exp(z) / torch.sum(torch.exp(z))
    return p[1]


def over_several_lines(z):
    e = torch.exp(z)
    total = e.sum()
    p = z / total
    return p.sum()


@in_both
@pytest.mark.parametrize(
    "program", [healed_by_a_division, sigmoid_by_hand, softmax_by_hand, over_several_lines]
)  # fmt: skip
def test_the_overflow_is_the_birth_and_the_gradient_its_consequence(program, explained):
    report = explained(program, tensor([100.0, 0.0]))
    first = report.findings[0]
    assert (first.kind, first.fields["why"]) == ("born", "overflow_of")
    assert first.headline.startswith("Inf is born" if program is not softmax_by_hand else ("Inf", "NaN"))
    assert not report.of_kind("born_backward")
    assert any("and made NaN" in fact or "and makes NaN" in fact for fact in first.facts)


def an_overflow_left_out(x):
    return torch.where(x > 50, x, torch.exp(x)).sum()


@in_both
def test_an_overflow_in_a_branch_left_out_is_a_matter_of_the_branch(explained):
    report = explained(an_overflow_left_out, tensor([100.0, 0.0]))
    assert any("the branch torch.exp(x) of where" in fact for one in report.findings for fact in one.facts)


# values through attributes


class Steps:
    """A model without a framework's class, as people write them: one method sets what the next one reads."""

    def __init__(self, w):
        self.w = w
        self.logs = torch.log(self.w - self.w)

    def forward(self, x):
        self.pred = torch.sigmoid(x * self.w)

    def loss(self, labels):
        return -(labels * torch.log(self.pred) + (1 - labels) * torch.log(1 - self.pred)).mean()

    def without_history(self, labels):
        self.hard = self.pred.detach()
        return (labels * torch.log(1 - self.hard)).mean() + self.pred.sum() * 0


@pytest.mark.parametrize("method", ["loss", "without_history"])
def test_what_one_method_sets_and_another_reads(method):
    w, x, labels = tensor(100.0, requires_grad=True), tensor([1.0, 0.0]), tensor([0.0, 1.0])
    with bp.probe(nonfinite=True) as rec:
        model = Steps.__new__(Steps)
        model.w = w
        model.forward(x)
        loss = getattr(model, method)(tensor([1.0, 0.0]) if method == "without_history" else labels)
        loss.backward()
    birth = bp.explain(rec).of_kind(*BIRTHS)[0]
    assert birth.kind == "born"
    assert birth.headline.endswith("log(0)")


def test_what_a_constructor_computed():
    w = tensor([1.0, 2.0], requires_grad=True)
    with bp.probe(nonfinite=True) as rec:
        model = Steps(w)
        loss = (model.logs * w).sum()
        loss.backward()
    birth = bp.explain(rec).of_kind(*BIRTHS)[0]
    assert (birth.kind, birth.source.text.strip()) == ("born", "self.logs = torch.log(self.w - self.w)")
    assert birth.headline.endswith("log(0)")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.act = nn.Linear(1, 1), nn.Sigmoid()
        nn.init.constant_(self.fc.weight, 200.0)

    def forward(self, x):
        self.pred = self.act(self.fc(x))
        return self.pred

    def loss(self, labels):
        return -((1 - labels) * torch.log(1 - self.pred)).mean()


def test_what_a_modules_forward_leaves_for_its_loss():
    net, x = Net(), torch.ones(2, 1)
    with bp.probe(nonfinite=True) as rec:
        net(x)
        loss = net.loss(torch.zeros(2, 1))
        loss.backward()
    birth = bp.explain(rec).of_kind(*BIRTHS)[0]
    assert (birth.kind, birth.fields["why"]) == ("born", "at")


def test_what_begins_where_the_operands_are_finite_is_told_from_what_came_in():
    def f(logits):
        p = torch.exp(logits) / torch.exp(logits).sum()
        loss = -torch.log(p).mean()
        return loss

    report = bp.explain(bp.probe(f, nonfinite=True)(torch.tensor([200.0, 0.0, -300.0])))
    headlines = [finding.headline for finding in report.of_kind("born")]
    assert any("Inf is born" in headline and "log(0)" in headline for headline in headlines), headlines
    assert not any("NaN" in headline and "log(0)" in headline for headline in headlines), headlines
    assert "gives NaN: log(0)" not in str(report)
