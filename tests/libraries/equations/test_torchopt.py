"""TorchOpt: optimizers whose steps are differentiated themselves, and implicit gradients of solutions."""

import torch
import torchopt
from torch import nn

FRAMEWORK, LIBRARIES = "PyTorch", ("torchopt",)


# https://torchopt.readthedocs.io/en/latest/basics/basics.html: functional steps
def functional(around):
    model = nn.Linear(3, 1)
    x, y = torch.randn(8, 3), torch.randn(8, 1)
    parameters = tuple(model.parameters())
    optimizer = torchopt.sgd(lr=0.1)
    state = optimizer.init(parameters)
    with around(model) as seen:
        loss = (model(x) - y).square().mean()
        grads = torch.autograd.grad(loss, parameters)
    updates, state = optimizer.update(grads, state, inplace=False)
    moved = torchopt.apply_updates(parameters, updates, inplace=False)
    return seen, loss, grads, moved


def test_functional_step(ask):
    rec = ask.block(functional)
    _, grads, _ = ask.bare(functional)
    ask.gradients(rec, {"weight": grads[0], "bias": grads[1]})
    ask.names(rec, "weight", "bias", "return")
    ask.works("functional optimizers: gradients by `autograd.grad`")


# https://torchopt.readthedocs.io/en/latest/optimizer/optim.html: a step by hand, differentiated by the learning rate
def meta_step(w, rate):
    inner = (w - 3).square().sum()
    (slope,) = torch.autograd.grad(inner, w, create_graph=True)
    optimizer = torchopt.sgd(lr=1.0)
    updates, _ = optimizer.update((rate * slope,), optimizer.init((w,)), inplace=False)
    (moved,) = torchopt.apply_updates((w,), updates, inplace=False)
    outer = (moved - 1).square().sum()
    return outer


def test_step_by_hand(ask):
    w, rate = torch.tensor([1.0, 5.0]), torch.tensor(0.1)
    rec = ask.function(meta_step, lambda: (w.clone().requires_grad_(), rate.clone().requires_grad_()))
    slope = 2 * (w - 3)
    moved = w - rate * slope
    d_moved = 2 * (moved - 1)
    right = {"moved": d_moved, "rate": -(d_moved * slope).sum(), "w": d_moved * (1 - 2 * rate), "outer": 1.0}
    ask.gradients(rec, right)
    ask.names(rec, "w", "rate", "slope", "moved", "outer", "inner")
    ask.clean(rec)
    ask.works("a differentiable step, by hand: weights and learning rate")


# https://torchopt.readthedocs.io/en/latest/optimizer/optim.html: MetaSGD around an inner loop
class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1)

    def forward(self, x):
        return self.layer(x)


def maml(around, steps=20):
    net = Inner()
    inner = torchopt.MetaSGD(net, lr=0.1)
    outer = torchopt.Adam(net.parameters(), lr=0.01)
    x, y = torch.randn(6, 2), torch.randn(6, 1)
    with around(net) as seen:
        for _ in range(steps):
            outer.zero_grad()
            first = torchopt.extract_state_dict(net, by="reference", detach_buffers=True)
            first_inner = torchopt.extract_state_dict(inner, by="reference")
            inner.step((net(x) - y).square().mean())
            loss = (net(x) + y).square().mean()
            loss.backward()
            torchopt.recover_state_dict(net, first)
            torchopt.recover_state_dict(inner, first_inner)
            outer.step()
            getattr(seen, "step", lambda: None)()  # of a run: its optimizers are none of PyTorch's
    return seen, loss, [p.detach() for p in net.parameters()]


def test_maml(ask):
    ask.block(maml, 1)
    ask.watched(maml)
    ask.select("`run.step()` after `outer.step()`, as the optimizers of TorchOpt are none of PyTorch's")
    ask.works("an inner loop by `MetaSGD`, in a block and under `bp.watch`: the same numbers")


# https://torchopt.readthedocs.io/en/latest/implicit_diff/implicit_diff.html: the solution of a ridge regression
def ridge(penalty):
    x = torch.tensor([[1.0], [2.0], [3.0]])
    y = torch.tensor([2.0, 4.1, 5.9])

    def stationary(w, penalty):
        return (x.T @ (x @ w - y)) + penalty * w

    @torchopt.diff.implicit.custom_root(stationary, argnums=1)
    def solve(w, penalty):
        return torch.linalg.solve(x.T @ x + penalty * torch.eye(1), x.T @ y)

    solution = solve(torch.zeros(1), penalty)
    return solution.sum()


def test_implicit_gradient(ask):
    rec = ask.function(ridge, lambda: (torch.tensor(0.5, requires_grad=True),))
    xx, xy = 14.0, 2 + 8.2 + 17.7
    ask.gradients(rec, {"penalty": -xy / (xx + 0.5) ** 2, "solution": [1.0]}, tolerance=1e-4)
    ask.values(rec, {"solution": [xy / (xx + 0.5)]})
    ask.names(rec, "penalty", "solution")
    ask.clean(rec)
    ask.works("`custom_root`: the derivative of a solution, by hand")


# planted
def meta_cut(w, rate):
    inner = (w - 3).square().sum()
    (slope,) = torch.autograd.grad(inner, w, create_graph=True)
    step = rate.item() * slope  # <- cut
    moved = w - step
    return (moved - 1).square().sum()


def meta_nan(w, rate):
    inner = (w - w).square().sum()
    size = inner.sqrt()  # <- nan
    return (w * rate).sum() + size


def test_planted(ask):
    inputs = lambda: (torch.tensor([1.0, 5.0], requires_grad=True), torch.tensor(0.1, requires_grad=True))
    rec = ask.function(meta_cut, inputs)
    ask.cut(rec, meta_cut)
    ask.statuses(rec, {"rate": "not_connected"})
    rec = ask.function(meta_nan, inputs, nonfinite=True)
    ask.nan(rec, meta_nan)
