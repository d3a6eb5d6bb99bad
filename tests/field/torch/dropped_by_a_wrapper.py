# from: own
# ask: explain
# exit: 1
# says: the result of `attached\(total, penalty\)` is not used
import torch
from torch import nn


class Riding(torch.autograd.Function):
    @staticmethod
    def forward(hidden, extra):
        return hidden.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return grad, torch.ones(())


def attached(total, penalty):
    return Riding.apply(total, penalty)


def loss_of(x):
    total = body(x).square().mean()
    penalty = gate(x).sigmoid().mean()
    attached(total, penalty)  # <- here
    return total


torch.manual_seed(0)
body, gate = nn.Linear(3, 3), nn.Linear(3, 1)
optimizer = torch.optim.SGD([*body.parameters(), *gate.parameters()], lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    loss_of(torch.randn(5, 3)).backward()
    optimizer.step()
