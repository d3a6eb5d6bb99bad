# from: own
# ask: python
import torch
from torch.func import functional_call, grad, vmap

import backprobe as bp

X = torch.arange(6.0).reshape(3, 2) / 3 - 1
layer = torch.nn.Linear(2, 2)


def loss(p, x):
    return functional_call(layer, p, (x[None],)).square().sum()


each = vmap(grad(loss), in_dims=(None, 0))


def by_model(weight, bias):
    g = each({"weight": weight, "bias": bias}, X)
    n = g["weight"].square().sum()
    return n


by_dict = vmap(grad(lambda p, x: (x @ p["w"]).square().sum()), in_dims=(None, 0))


def of_a_dict(w):
    g = by_dict({"w": w}, X)
    n = g["w"].square().sum()
    return n


by_tensor = vmap(grad(lambda w, x: (x @ w).square().sum()), in_dims=(None, 0))


def of_a_tensor(w):
    g = by_tensor(w, X)
    return g.square().sum()


torch.manual_seed(0)
w = torch.randn(2, 2)
for function, given in ((by_model, (w, w[0])), (of_a_dict, (w,)), (of_a_tensor, (w,))):
    report = bp.check(function)(*given)
    assert not report.findings, report
    assert "other outputs" not in str(report), report
