"""Models whose forward and backward AOTAutograd traces in their first call: what is traced has no numbers."""

import torch
from functorch.compile import aot_module, nop
from torch import nn

import backprobe as bp


def made():
    torch.manual_seed(0)
    return aot_module(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), fw_compiler=nop)


def step(model):
    loss = model(torch.ones(5, 3)).square().sum()
    loss.backward()
    return [p.grad for p in model.parameters()]


def test_a_block_computes_the_same():
    bare, model = step(made()), made()
    with bp.probe(model, "**") as rec:
        gradients = step(model)
    assert all(map(torch.equal, gradients, bare))
    assert all(map(torch.equal, [rec[name].grad for name, _ in model.named_parameters()], bare))
    assert rec["orig_module.0"].status == "opaque"


def test_a_watch_computes_the_same(tmp_path):
    bare, model = step(made()), made()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with bp.watch(model, tmp_path / "run", optimizer=optimizer):
        gradients = step(model)
        optimizer.step()
    assert all(map(torch.equal, gradients, bare))
    assert "grad.rms" in bp.open_run(tmp_path / "run").at(0)["orig_module.0.weight"]
