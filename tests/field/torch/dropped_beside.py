# from: own
# ask: explain
# says: all 2 parameters got a gradient
# says: the result of `Riding\.apply\(out, penalty\)` is not used
import torch
from torch import nn


class Riding(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, extra):
        return hidden.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad, torch.ones(())


torch.manual_seed(0)
layer = nn.Linear(3, 1)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    out = layer(torch.randn(5, 3))
    penalty = layer.weight.abs().sum()
    Riding.apply(out, penalty)  # <- here
    out.square().mean().backward()
    optimizer.step()
