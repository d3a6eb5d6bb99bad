"""Programs that ``torch.export`` made: their module runs code that is written by a program."""

import torch
from functorch.compile import aot_module, nop
from torch import nn
from torch.func import functional_call

FRAMEWORK, LIBRARIES = "PyTorch", ("torch",)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        hidden = torch.tanh(self.first(x))
        return self.second(hidden)


# https://docs.pytorch.org/docs/stable/export.html: an exported module, trained
def training(around, steps=20, select=None):
    model = torch.export.export(Net(), (torch.randn(5, 3),)).module()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x, y = torch.randn(5, 3), torch.randn(5, 2)
    with around(model, select, optimizer=optimizer) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            out = model(x)
            loss = nn.functional.mse_loss(out, y)
            loss.backward()
            optimizer.step()
    return seen, loss, {name: p.grad for name, p in model.named_parameters()}


NAMES = ("first.weight", "first.bias", "second.weight", "second.bias")


def test_exported_module(ask):
    rec = ask.block(training, 1)
    _, grads = ask.bare(training, 1)
    ask.gradients(rec, grads)
    ask.names(rec, *NAMES, "return")
    ask.clean(rec)
    last = ask.watched(training)
    ask.rows(last, *NAMES)
    ask.works("the module of `torch.export`: its parameters, and `bp.watch`")


def exported_locals(around):
    return training(around, 1, ["**", ":*"])


def test_locals_of_exported_code(ask):
    rec = ask.block(exported_locals)
    ask.names(rec, "tanh", "linear", "linear_1")
    ask.works("local variables of exported code, `:tanh`")


# by hand
def in_a_block(around):
    model = torch.export.export(Net(), (torch.randn(5, 3),)).module()
    x, y = torch.randn(5, 3), torch.randn(5, 2)
    with around() as seen:
        out = model(x)
        loss = (out - y).square().sum()
        loss.backward()
    return seen, loss, out - y


def test_by_hand(ask):
    rec = ask.block(in_a_block)
    _, residual = ask.bare(in_a_block)
    ask.gradients(rec, {"out": 2 * residual, "loss": 1.0})
    ask.names(rec, "out", "x", "y")
    ask.clean(rec)


# https://docs.pytorch.org/docs/stable/generated/torch.func.functional_call.html
def stateless(around):
    model = Net()
    named = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
    x = torch.randn(5, 3)
    with around() as seen:
        out = functional_call(model, named, (x,))
        loss = out.square().sum()
        loss.backward()
    return seen, loss, {name: p.grad for name, p in named.items()}, out


def test_functional_call(ask):
    rec = ask.block(stateless)
    *_, out = ask.bare(stateless)
    ask.gradients(rec, {"out": 2 * out, "loss": 1.0})
    ask.names(rec, "out", "/Net:hidden")
    ask.clean(rec)


# https://docs.pytorch.org/functorch/stable/aot_autograd.html: forward and backward, both traced ahead of time
def ahead(around):
    model = aot_module(Net(), fw_compiler=nop)
    x = torch.randn(5, 3)
    with around() as seen:
        out = model(x)
        loss = out.square().sum()
        loss.backward()
    return seen, loss, out, {name: p.grad for name, p in model.named_parameters()}


def ahead_as_a_model(around):
    model = aot_module(Net(), fw_compiler=nop)
    with around(model) as seen:
        loss = model(torch.randn(5, 3)).square().sum()
        loss.backward()
    return seen, loss, {name: p.grad for name, p in model.named_parameters()}


def test_ahead_of_time(ask):
    rec = ask.block(ahead)
    _, out, grads = ask.bare(ahead)
    ask.gradients(rec, {"out": 2 * out, "loss": 1.0})
    ask.that(all(grad is not None for grad in grads.values()), "a parameter has no gradient by itself")
    ask.names(rec, "x", "out", "loss")
    ask.clean(rec)
    rec = ask.block(ahead_as_a_model)
    _, grads = ask.bare(ahead_as_a_model)
    ask.gradients(rec, grads)
    ask.names(rec, "return")
    ask.clean(rec)
    ask.works("`aot_module`: what goes in, comes out, and the parameters")


# planted
class Cut(Net):
    def forward(self, x):
        hidden = torch.tanh(self.first(x)).detach()
        return self.second(hidden)


class Nan(Net):
    def forward(self, x):
        hidden = torch.relu(self.first(x)) * 0
        return self.second(hidden.sqrt())


def planted(around, kind):
    model = torch.export.export(kind(), (torch.randn(5, 3),)).module()
    with around(model, ["**", "**:*"]) as seen:
        loss = model(torch.randn(5, 3)).square().mean()
        loss.backward()
    return seen, loss


def test_planted(ask):
    import backprobe as bp

    rec = ask.block(planted, Cut)
    report = str(bp.explain(rec))
    ask.statuses(rec, {"first.weight": "not_connected", "first.bias": "not_connected"})
    ask.that("detach" in report, f"the report does not say where: {report}")
    rec = ask.block(planted, Nan, nonfinite=True)
    report = str(bp.explain(rec))
    ask.that("sqrt" in report, f"the report does not say where: {report}")
