# from: own
# ask: python
import torch
from torch.func import grad, vmap

import backprobe as bp

torch.manual_seed(0)
X = torch.randn(3, 2)
per_row = vmap(grad(lambda w, x: (x @ w).sin().sum()), in_dims=(None, 0))


def roughness(w):
    slopes = per_row(w, X.to(w.dtype))
    return slopes.square().mean()


w = torch.randn(2, 2)
assert torch.autograd.gradcheck(roughness, w.double().requires_grad_())
report = bp.check(roughness)(w)
assert not report.findings, str(report)
assert "other outputs" not in str(report), str(report)
