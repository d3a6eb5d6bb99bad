"""Models that run with other tensors in the place of their parameters, as ``torch.func.functional_call`` has it."""

import pytest
import torch
from torch import nn
from torch.func import functional_call

import backprobe as bp


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1)), torch.randn(3, 4)


def copies(net):
    return {name: parameter.detach().clone().requires_grad_() for name, parameter in net.named_parameters()}


def test_the_parameters_of_a_model_that_ran_with_others_were_not_to_be_trained():
    net, x = model()
    instead = copies(net)
    with bp.probe() as rec:
        loss = functional_call(net, instead, (x,)).sum()
        loss.backward()
    report = bp.explain(rec)
    assert report.ok, str(report)
    assert all(one.grad is not None for one in instead.values())


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_an_optimizer_that_has_them_trains_nothing(kind):
    net, x = model()
    optimizer, instead = kind(net.parameters(), lr=0.1), copies(net)
    with bp.probe() as rec:
        loss = functional_call(net, instead, (x,)).sum()
        loss.backward()
        optimizer.step()
    (found,) = bp.explain(rec).findings
    assert found.kind == "replaced"
    assert found.lost == ("net.0.weight", "net.0.bias", "net.2.weight", "net.2.bias")
    assert "functional_call" in found.headline


def test_a_model_that_ran_with_its_own_as_well_is_trained():
    net, x = model()
    optimizer, instead = torch.optim.SGD(net.parameters(), lr=0.1), copies(net)
    with bp.probe() as rec:
        loss = functional_call(net, instead, (x,)).sum() + net(x).sum()
        loss.backward()
        optimizer.step()
    assert bp.explain(rec).ok


def test_a_step_of_maml_is_well():
    net, x = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with bp.probe() as rec:
        fast = dict(net.named_parameters())
        for _ in range(2):
            loss = functional_call(net, fast, (x,)).pow(2).mean()
            found = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
            fast = {name: one - 0.1 * grad for (name, one), grad in zip(fast.items(), found, strict=True)}
        outer = functional_call(net, fast, (x,)).pow(2).mean()
        outer.backward()
        optimizer.step()
    report = bp.explain(rec)
    assert report.ok, str(report)
