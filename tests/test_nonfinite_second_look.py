"""Births within calls are heard in a second run; what that shows, and that the verbs agree."""

import json
import sys
import warnings

import numpy as np
import pytest
import torch
from torch import nn, tensor

import backprobe as bp
from commands import invoked, python


class Shares(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        total = x.sum(-1, keepdim=True)
        shares = x / total
        ctx.save_for_backward(shares, total)
        return shares

    @staticmethod
    def backward(ctx, g):
        shares, total = ctx.saved_tensors
        return (g - (g * shares).sum(-1, keepdim=True)) / total


def of_a_function(x):
    p = Shares.apply(x)
    return p.sum()


def heard(report):
    return [fact for one in report for fact in one.facts if fact.startswith("run again with its operations heard")]


def test_a_birth_in_forward_of_a_custom_function_shows_its_operands():
    (said, *_) = heard(bp.explain(bp.probe(of_a_function, nonfinite=True)(tensor([[1.0, -1.0], [2.0, 3.0]]))))
    assert "div at [0, 0]: 1.0 / 0.0, in `shares = x / total` (test_nonfinite_second_look.py:" in said


@pytest.mark.parametrize("given", [np.array([[1.0, -1.0], [2.0, 3.0]], np.float32), 0.0], ids=["an array", "a number"])
def test_arguments_that_became_tensors_are_tensors_when_it_runs_again(given):
    """As on the command line, where none of them is one."""
    report = bp.explain(bp.probe(of_a_function if np.ndim(given) else of_a_number, nonfinite=True)(given))
    assert heard(report) and not [note for note in report.notes if "raised" in note]


def of_a_number(x):
    p = Shares.apply(x.reshape(1, 1))
    return p.sum()


def test_a_birth_in_a_layer_shows_the_row_that_is_masked():
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def program(h):
        mixed, weights = attention(h, h, h, key_padding_mask=tensor([[False, False], [True, True]]))
        return mixed.sum()

    said = heard(bp.explain(bp.probe(program, nonfinite=True)(torch.randn(2, 2, 4))))
    assert said and all("all 2 numbers are −Inf" in one for one in said)


def test_nothing_is_heard_where_the_line_shows_it_or_no_run_may_be_made():
    def program(x):
        y = torch.special.xlog1py(x + 2, x - 1)
        return y.sum()

    assert not heard(bp.explain(bp.probe(program, nonfinite=True)(tensor([0.0, 1.0]))))
    rec = bp.probe(of_a_function, nonfinite=True)(tensor([[1.0, -1.0]]))
    assert not heard(bp.explain(rec, experiments=False))


def test_memory_that_was_never_written_is_no_birth():
    bp.probe(of_a_function)(tensor([[1.0, 2.0]]))  # which imports it
    hearing, told, kept = sys.modules["backprobe.backends.torch.heard_births"].HearingBirths, [], []
    others = []  # that come and go, so that the memory which is given back is not always given again at once
    with hearing(told.append):
        for turn in range(500):
            kept.append(torch.empty_like(torch.ones(300)).fill_(float("nan")))
            others.append(torch.full((300 + turn % 50,), float("nan")))
            del kept[:], others[:: 1 + turn % 7]
            torch.empty_like(torch.ones(300))
        torch.log(torch.full((300,), -1.0))
    assert {one.operation for one in told} - {"fill_", "full"} == {"log"}


def test_what_is_nan_whatever_it_is_given_is_a_birth_and_nothing_warns():
    """A deviation of one number is computed; and a loss that takes other memory than it is given warns of that."""
    bp.probe(of_a_function)(tensor([[1.0, 2.0]]))
    hearing, told = sys.modules["backprobe.backends.torch.heard_births"].HearingBirths, []
    with warnings.catch_warnings(), hearing(told.append):
        warnings.simplefilter("error")
        torch.nn.functional.mse_loss(torch.full((64,), 1e30, requires_grad=True), torch.zeros(64))
        warnings.simplefilter("ignore")  # of so few numbers
        torch.ones(1).std()
    assert [one.operation for one in told] == ["mse_loss", "std"]


SCRIPT = """\
import torch
torch.manual_seed(0)
w = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
optimizer = torch.optim.{optimizer}
for step in range(3):
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(**parts):
        (tmp_path / "train.py").write_text(SCRIPT.format(**parts))

    return write


def test_a_step_of_an_optimizer_shows_its_operands(script):
    script(optimizer="RMSprop([w], eps=0.0)", loss="(w * torch.tensor([1.0, 0.0])).sum()")
    _, said, _ = invoked("explain", "--nonfinite", "train.py")
    assert "addcdiv_ at [1]: `self` is 2.0, `tensor1` is 0.0, `tensor2` is 0.0" in said


CURED = {
    "torch.log(torch.softmax(w * 200, 0)).mean()": "in 1 iteration no operation makes NaN or Inf then",
    "torch.sqrt(w - torch.tensor([1.0, 0.0])).sum()": "in 1 iteration no operation makes NaN or Inf then, and losses that were finite are the same",  # noqa: E501
    "torch.log(w - 1).sum() + torch.log(w - 2).sum()": "in 1 iteration nothing is born here then, but elsewhere",
}


@pytest.mark.parametrize("loss", CURED)
def test_a_remedy_of_a_script_says_what_it_cured(loss, script):
    first, plus, second = loss.partition(" + ")
    script(optimizer="SGD([w], lr=0.1)", loss=f"{first}\n    loss = loss + {second}" if plus else loss)
    report = json.loads(invoked("explain", "--nonfinite", "--json", "train.py")[1])
    assert report["findings"][0]["tried"] == [CURED[loss]]


UNNAMED = """\
import torch
net, x = torch.nn.Linear(2, 1, bias=False), torch.tensor([[0.0, 0.5], [1.0, 1.0]])
net.weight.data.fill_({weight})
for step in range(2):
    loss = torch.exp(net(x)).mean()
    loss.backward()
"""


def test_a_line_that_calls_a_model_without_a_name_made_the_number_itself(asked):
    said = asked(UNNAMED.format(weight=80.0))
    assert "Inf is born at 'loss' (train.py:5): overflow: float32 ends at 3.40e38" in said
    assert "run again with its operations heard, exp at [1, 0]: `self` is 160.0" in said
    assert "next:  `net_result = net(x)` on a line of its own before, and `net_result` in this line" in said


def test_a_number_that_was_made_inside_of_the_model_is_not_the_lines_own(asked):
    said = asked(UNNAMED.format(weight=3e38))
    assert "Inf is born at 'loss', or came in with net, which is not recorded (train.py:5)" in said


MASKED_ROW = """\
import torch
net, x = torch.nn.Linear(2, 2), torch.ones(2, 2)
mask = torch.tensor([[True, True], [False, False]])
for step in range(2):
    a = net(x).masked_fill(~mask, float("-inf")).softmax(-1)
    loss = a.square().sum()
    loss.backward()
"""


def test_a_mask_that_stays_does_not_hide_that_a_remedy_helps(asked):
    said = asked(MASKED_ROW)
    assert "NaN is born at 'a' (train.py:5): Inf − Inf: a row that is Inf or all −Inf" in said
    assert "tried: in 1 iteration no operation makes NaN then, and all losses are finite" in said
    assert "next:  `torch.softmax(torch.clamp(net(x).masked_fill(~mask, float('-inf')), min=-1e+09), dim=-1)`" in said


def softmax_by_hand(x):
    e = torch.exp(x)
    p = e / e.sum()
    return (p * p).sum()


def test_a_remedy_of_another_line_is_tried():
    first = bp.explain(bp.probe(softmax_by_hand, nonfinite=True)(tensor([100.0, 1.0]))).findings[0]
    assert first.name == "e" and first.remedy.startswith("`torch.softmax(x, dim=0)` instead of `e / e.sum()`")
    assert first.tried and first.edits[0].line == first.source.line + 1


# an index beyond a table


def test_the_error_of_an_embedding_says_which_index_and_how_many_rows():
    table = nn.Embedding(5, 2)

    def program(x):
        return (table(tensor([[0, 1], [7, 2]])) * x).sum()

    with pytest.raises(IndexError) as caught:
        bp.probe(program)(tensor(1.0))
    (note,) = [one for one in caught.value.__notes__ if "beyond" in one]
    assert note == "backprobe: the index 7 at [1, 0] of input is beyond weight, which has 5 rows"


# the same words


class Ratio(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, x):
        root = torch.sqrt((x * self.scale).abs())
        return root / x.sum(1, keepdim=True)


def test_guard_explain_and_watch_give_the_same_reason_in_the_same_words(tmp_path):
    x = torch.tensor([[1.0, -1.0, 0.0]])
    model = Ratio()
    explained = bp.explain(bp.probe(model, ["**", "**:*", "**:*()"], of=lambda y: y.sum(), nonfinite=True)(x))
    with pytest.raises(bp.NotFinite) as guarded, bp.guard(model):
        model(x).sum().backward()
    with pytest.raises(bp.NotFinite) as watched, bp.watch(model, tmp_path / "run", guard=True):
        model(x).sum().backward()
    first = [report.findings[0] for report in (explained, guarded.value.report, watched.value.report)]
    assert len({one.headline for one in first}) == 1 and first[0].headline.endswith(": 0/0")
    assert len({(one.kind, one.source.line, one.facts[0], one.remedy) for one in first}) == 1


FAILING = """\
import torch
torch.manual_seed(0)
class Net(torch.nn.Linear):
    def forward(self, x):
        return torch.log(x.sum(1, keepdim=True)) * super().forward(x)
def make():
    return Net(2, 1)
if __name__ == "__main__":
    net = make()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for number in {numbers}:
        loss = net({given}torch.full((1, 2), number)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def test_watch_captures_the_failing_step_of_a_script(script, tmp_path):
    (tmp_path / "train.py").write_text(FAILING.format(numbers=(1.0, 1.0, 0.0), given=""))
    status, _, errors = python("-m", "backprobe", "watch", "--capture", "bad-step", "train.py")
    assert status == 1 and "NotFinite" in errors
    status, shown, _ = invoked("replay", "bad-step", "train.py:make")
    assert status == 1 and "log(0)" in shown
    status, _, errors = invoked("watch", "--capture", "bad-step", "--folder", "again", "train.py")
    assert status == 2 and "--capture bad-step" in errors


@pytest.mark.parametrize("given", ["", "x="])
def test_watch_captures_a_step_that_is_the_first(given, script, tmp_path):
    """The call that a model is found by began before its guard: it is given to the guard nevertheless."""
    (tmp_path / "train.py").write_text(FAILING.format(numbers=(0.0, 1.0), given=given))
    status, _, errors = invoked("watch", "--capture", "bad-step", "train.py")
    assert status == 1 and "NotFinite" in errors
    status, shown, _ = invoked("replay", "bad-step", "train.py:make")
    assert status == 1 and "log(0)" in shown


OWN_RULE = """\
import torch


class Root(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        root = x.sqrt()
        ctx.save_for_backward(root)
        return root

    @staticmethod
    def backward(ctx, g):
        (root,) = ctx.saved_tensors
        return g / (2 * root)


x = torch.tensor([0.0, 4.0], requires_grad=True)
for step in range(2):
    loss = (Root.apply(x) * torch.tensor([0.0, 1.0])).sum()
    loss.backward()
"""
EQUAL = """\
import torch
x = torch.eye(2, requires_grad=True)
for step in range(2):
    loss = torch.linalg.eigh(x * 1 + x.T)[1].sum()
    loss.backward()
"""
ENTROPY = """\
import torch
x = torch.tensor([0.0, 1.0], requires_grad=True)
for step in range(2):
    loss = (torch.special.entr(x) * 2 + torch.special.i0e(x)).sum()
    loss.backward()
"""


@pytest.fixture
def asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def ask(text):
        (tmp_path / "train.py").write_text(text)
        return invoked("explain", "--nonfinite", "train.py")[1]

    return ask


def test_a_rule_of_the_program_shows_what_it_divided_in_backward(asked):
    said = asked(OWN_RULE)
    assert (
        "run again with its operations heard, div at [0]: 0.0 / 0.0, in `return g / (2 * root)` (train.py:14)" in said
    )


def test_the_matrix_that_was_decomposed_is_looked_at(asked):
    """`x` has equal eigenvalues, too, but nothing decomposed it."""
    said = asked(EQUAL)
    assert "two eigenvalues of x * 1 + x.T are equal: 2 and 2" in said
    assert "run again with its operations heard, div_ at [0, 1]: 0.0 / 0.0" in said


def test_the_operation_of_a_line_of_several_gets_the_remedy(asked):
    said = asked(ENTROPY)
    assert (
        "next:  `torch.special.entr(torch.where(x > 1.19e-07, x, 1.19e-07))` instead of `torch.special.entr(x)`" in said
    )


def test_a_block_looks_at_the_matrix_that_was_decomposed():
    x = torch.eye(2, requires_grad=True)
    with bp.probe(nonfinite=True) as rec:
        loss = torch.linalg.eigh(x + torch.diag(tensor([0.0, 0.0])) * x)[1].sum()
        loss.backward()
    assert not [fact for one in bp.explain(rec) for fact in one.facts if "eigenvalues of x are" in fact]
