"""The remedies of cuts and of PyTorch's errors, put into the program as they are written: its gradient arrives."""

import re

import pytest
import torch
import torch.nn.functional as F

import backprobe as bp
from goldens import golden
from remedied import defined

HEAD = "import torch\nimport torch.nn.functional as F\n\n\n"
X, W = (1.0, 2.0, 3.0), (0.5, -1.0, 2.0)

POSITIONS = {
    "the largest": ("    h = x * 2\n    k = h.argmax()\n", "h.argmax()", "h.max()"),
    "the smallest": ("    h = x * 2\n    k = torch.argmin(h)\n", "torch.argmin(h)", "torch.min(h)"),
    "along one dimension": (
        "    h = (x * w).reshape(1, 3)\n    k = h.argmin(dim=1)\n",
        "h.argmin(dim=1)",
        "h.min(dim=1).values",
    ),
    "in order": ("    h = x * 2\n    k = torch.argsort(h)\n", "torch.argsort(h)", "torch.sort(h).values"),
    "the first few": (
        "    h = x * 2\n    k = torch.topk(h, 2).indices.sum()\n",
        "torch.topk(h, 2).indices",
        "torch.topk(h, 2).values",
    ),
    "the second of a pair": ("    h = x * 2\n    k = torch.min(h, 0)[1]\n", "torch.min(h, 0)[1]", "torch.min(h, 0)[0]"),
    "of another expression": (
        "    k = F.softmax(x * 3, 0).argmax()\n",
        "F.softmax(x * 3, 0).argmax()",
        "F.softmax(x * 3, 0).max()",
    ),
}
COPIES = {
    "items": (
        "    k = torch.tensor([x[0], x[1] * 2])\n",
        "torch.tensor([x[0], x[1] * 2])",
        "torch.stack([x[0], x[1] * 2])",
    ),
    "a comprehension": (
        "    rows = [x * 2, x * 3]\n    k = torch.tensor([row.sum() for row in rows])\n",
        "torch.tensor([row.sum() for row in rows])",
        "torch.stack([row.sum() for row in rows])",
    ),
    "a list by its name": (
        "    rows = [x.sum(), x.prod()]\n    k = torch.as_tensor(rows)\n",
        "torch.as_tensor(rows)",
        "torch.stack(rows)",
    ),
    "rows of rows": (
        "    k = torch.tensor([[x[0], x[1]], [x[2], x[0]]])\n",
        "torch.tensor([[x[0], x[1]], [x[2], x[0]]])",
        "torch.stack([torch.stack([x[0], x[1]]), torch.stack([x[2], x[0]])])",
    ),
    "a tensor": ("    h = x * 2\n    k = torch.tensor(h)\n", "torch.tensor(h)", "h.clone()"),
}


def explained(body, tmp_path):
    return bp.explain(bp.probe(_function(body, tmp_path))(leaf(X), leaf(W)), "x")


def _function(body, folder):
    return defined(f"{HEAD}def f(x, w):\n{body}    return (k * w.sum()).sum()\n", folder).f


def leaf(values):
    return torch.tensor(values, requires_grad=True)


@pytest.mark.filterwarnings("ignore:To copy construct from a tensor:UserWarning")
@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True:UserWarning")
@pytest.mark.parametrize(
    ("body", "before", "instead"), [*POSITIONS.values(), *COPIES.values()], ids=[*POSITIONS, *COPIES]
)
def test_what_is_written_instead_of_a_cut_lets_the_gradient_through(body, before, instead, tmp_path):
    finding = explained(body, tmp_path).findings[0]
    assert f"`{before}`" in finding.headline
    assert re.search(rf"(write|gradient flows:) {re.escape(instead)}(,| instead,|$)", finding.remedy), finding.remedy
    cured, x = _function(body.replace(before, instead), tmp_path), leaf(X)
    (gradient,) = torch.autograd.grad(cured(x, leaf(W)), [x])
    assert gradient.abs().sum() > 0


@pytest.mark.parametrize(
    ("body", "before", "instead"),
    [
        ("    k = torch.where(x > 0, x.detach(), torch.zeros(3))\n", "x.detach()", "x"),
        ("    k = x.detach() * (x > 1.5)\n", "x.detach()", "x"),
        ("    k = x.data[x.argmax()] * 2\n", "x.data", "x"),
        (
            "    k = torch.tensor([x[0], x[1]]) * (x[:2] > 0)\n",
            "torch.tensor([x[0], x[1]])",
            "torch.stack([x[0], x[1]])",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True:UserWarning")
def test_what_cuts_beside_a_condition_is_not_the_condition(body, before, instead, tmp_path):
    (finding,) = explained(body, tmp_path).findings
    assert f"`{before}`" in finding.headline, finding.headline
    cured, x = _function(body.replace(before, instead), tmp_path), leaf(X)
    assert torch.autograd.grad(cured(x, leaf(W)), [x])[0].abs().sum() > 0


@pytest.mark.parametrize(
    "body",
    ["    k = torch.searchsorted(torch.tensor([1.5, 2.5]), x)\n", "    k = torch.bucketize(x, torch.tensor([1.5]))\n"],
)
def test_positions_among_other_values_have_no_value_there(body, tmp_path):
    (finding,) = explained(body, tmp_path).findings
    assert "gives positions" in finding.headline and "at that position" not in finding.remedy


def test_what_was_drawn_is_no_position(tmp_path):
    finding = explained("    k = torch.multinomial(x.softmax(0), 1)\n", tmp_path).findings[0]
    assert "draws whole numbers" in finding.headline and "log_prob()" in finding.remedy


def test_a_list_of_numbers_is_not_cloned(tmp_path):
    body = "    some = [x.sum().item(), 2.0]\n    k = torch.tensor(some)\n    w = k\n"
    with pytest.raises(bp.NothingToDifferentiate) as caught:
        bp.probe(_function(body, tmp_path))(leaf(X), leaf(W))
    assert "clone()" not in str(caught.value.__notes__)


def test_a_step_inside_an_expression(tmp_path):
    (finding,) = explained("    k = torch.round(x * 4) / 4 - 1\n", tmp_path).findings
    golden("explain", finding)


def test_a_cut_of_what_a_library_makes_of_a_list(tmp_path):
    (finding, *_) = explained("    s = [x * 2, x * 3]\n    k = torch.stack(s).data.mean(0)\n", tmp_path).findings
    assert finding.kind == "data" and "`torch.stack(s).data`" in finding.headline


# errors


def noted(program):
    with pytest.raises(RuntimeError) as caught:
        program()
    return caught.value.__notes__[-1]


def test_a_quotient_that_has_no_derivative():
    w = leaf(X)

    def program():
        with bp.probe():
            q = (w * 2) // 0.7
            (q.sum() * 2).backward()

    said = noted(program)
    golden("explain", said)
    q = (w * 2) / 0.7
    (q.sum() * 2).backward()
    assert w.grad.abs().sum() > 0


def test_an_operation_without_a_derivative_that_has_no_name():
    w = leaf(X)

    def program():
        with bp.probe():
            loss = (torch.igamma(w * 1.0, torch.ones(3)) * 2).sum()
            loss.backward()

    said = noted(program)
    golden("explain", said)


def test_a_loss_without_a_name_that_is_not_one_number():
    w = leaf(X)

    def program():
        with bp.probe():
            F.relu(w * 2).backward()

    golden("explain", noted(program))


def test_a_sample_of_a_distribution_of_what_has_no_name():
    m = torch.nn.Linear(3, 2)

    def program():
        with bp.probe():
            d = torch.distributions.Normal(m(torch.ones(3)), 1.0)
            z = d.sample()
            z.pow(2).sum().backward()

    golden("explain", noted(program))
    torch.distributions.Normal(m(torch.ones(3)), 1.0).rsample().pow(2).sum().backward()
    assert m.weight.grad.abs().sum() > 0


def test_what_a_sample_is_drawn_from_may_be_asked_for():
    with bp.probe() as rec:
        d = torch.distributions.Normal(torch.zeros(3), 1.0)
        z = d.sample()
        loss = (z * leaf(X)).sum()
        loss.backward()
    (finding,) = bp.explain(rec, "z").findings
    assert "requires_grad_()" in finding.remedy
    golden("explain", finding)


def test_a_named_result_of_a_model_that_is_detached_in_place():
    m = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    with bp.probe() as rec:
        h = m(torch.ones(2, 3))
        h.detach_()
        loss = h.sum().requires_grad_()
        loss.backward()
        optimizer.step()
    first, *_ = bp.explain(rec).findings
    assert first.kind == "detach" and first.remedy.startswith("leave out detach()")
    assert first.source.text == "h.detach_()"
    assert "m.weight" in first.lost


def test_a_branch_that_is_detached_beside_one_that_is_not(tmp_path):
    (finding,) = explained("    k = torch.where(x > 0, x.detach(), x * 2)\n", tmp_path).findings
    golden("explain", finding)
