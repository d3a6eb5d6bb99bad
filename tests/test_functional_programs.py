"""Programs in the style of torch.func: parameters that a call is given, and gradients without backward()."""

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

import backprobe as bp
from goldens import golden

CUTS = {
    "detach": lambda self, x: self.head(torch.relu(self.enc(x)).detach()),
    "no_grad": lambda self, x: self.head(self.frozen(x)),
    "argmax": lambda self, x: self.head(F.one_hot(self.enc(x).argmax(1), 8).float()),
}
WORDS = {
    "detach": "`torch.relu(self.enc(x)).detach()`",
    "no_grad": "under torch.no_grad()",
    "argmax": "gives positions",
}


class Net(nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.enc, self.head, self.part = nn.Linear(4, 8), nn.Linear(8, 2), forward

    def frozen(self, x):
        with torch.no_grad():
            return self.enc(x)

    def forward(self, x):
        return self.part(self, x)


def given(model):
    return {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}


@pytest.mark.parametrize("cut", CUTS)
def test_a_cut_inside_of_a_functional_call_is_named(cut):
    model, x, y = Net(CUTS[cut]), torch.randn(8, 4), torch.zeros(8, dtype=torch.int64)
    params = given(model)
    optimizer = torch.optim.SGD([*params.values()], 0.1)
    with bp.probe() as rec:
        loss = F.cross_entropy(functional_call(model, params, (x,)), y)
        loss.backward()
        optimizer.step()
    report = bp.explain(rec)
    assert report.heading.startswith("2 of 4 parameters got no gradient")
    (found,) = report.findings
    assert WORDS[cut] in str(found), str(report)
    assert "'CUTS'" not in str(found)
    golden("explain", found)
    assert "nothing that was recorded" not in str(report)


def test_parameters_that_no_variable_holds_have_the_names_of_the_call():
    model, x = Net(CUTS["detach"]), torch.randn(8, 4)
    held = [given(model)]
    optimizer = torch.optim.SGD([*held[0].values()], 0.1)
    with bp.probe() as rec:
        functional_call(model, held[0], (x,)).sum().backward()
        optimizer.step()
    (found,) = bp.explain(rec).findings
    golden("explain", found)


def test_a_functional_call_in_which_all_is_used_is_well():
    model, x = Net(lambda self, x: self.head(self.enc(x))), torch.randn(8, 4)
    params = given(model)
    optimizer = torch.optim.SGD([*params.values()], 0.1)
    with bp.probe() as rec:
        functional_call(model, params, (x,)).sum().backward()
        optimizer.step()
    assert bp.explain(rec).ok, str(bp.explain(rec))


def test_gradients_of_torch_func_need_no_backward():
    model, x, y = nn.Linear(4, 2), torch.randn(6, 4), torch.zeros(6, dtype=torch.int64)

    def loss_of(params, one, label):
        return F.cross_entropy(functional_call(model, params, (one[None],)), label[None])

    with bp.probe() as rec:
        params = {name: p.detach() for name, p in model.named_parameters()}
        each = vmap(grad(loss_of), (None, 0, 0))(params, x, y)
        with torch.no_grad():
            for name, p in model.named_parameters():
                p -= 0.1 * each[name].mean(0)
    report = bp.explain(rec)
    assert report.ok, str(report)
    assert any("torch.func" in note for note in report.notes)


def test_a_block_without_backward_is_still_a_finding():
    w = torch.ones(2, requires_grad=True)
    with bp.probe() as rec:
        loss = (w**2).sum()
    assert loss.requires_grad
    assert not bp.explain(rec).ok
