# from: own
# ask: python
import torch

import backprobe as bp


def slope_of(x, grad):
    scaled = grad * x.cos()
    return scaled


class Sine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        return slope_of(*ctx.saved_tensors, grad)


def f(x):
    u = Sine.apply(x)
    return (u * u).sum()


rec = bp.probe(f)(torch.tensor([0.5, 1.0]))
said = " ".join(map(str, rec.notes))
assert any("slope_of" in name for name in rec) or "Sine" in said or "slope_of" in said, (list(rec), said)
