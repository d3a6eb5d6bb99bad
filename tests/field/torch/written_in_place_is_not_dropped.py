# from: own
# ask: python
import torch
from torch import nn

import backprobe as bp


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        ctx.mark_dirty(value)
        return value.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class Shifted(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        return value + 1

    @staticmethod
    def backward(ctx, grad):
        return grad


def kept(out):
    kept_losses.append(Shifted.apply(out).square().mean())


torch.manual_seed(0)
layer, kept_losses = nn.Linear(3, 1), []
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
with bp.probe() as rec:
    out = layer(torch.randn(5, 3))
    Doubled.apply(out)
    kept(out)
    kept_losses[-1].backward()
    optimizer.step()
told = str(bp.explain(rec))
assert "is not used" not in told, told
assert "all 2 parameters got a gradient" in told, told
