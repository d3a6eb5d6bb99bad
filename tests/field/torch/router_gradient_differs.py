# from: https://github.com/huggingface/transformers/issues/48687
# ask: python
import torch

import backprobe as bp

HERE = 2  # this rank has the experts 0 and 1 of 3


def reference(x, router, up):
    scores = (x @ router).softmax(-1)
    weight, chosen = scores.topk(2, dim=-1)
    out = torch.zeros_like(x)
    for e in range(HERE):
        token, slot = torch.where(chosen == e)
        out = out.index_add(0, token, (x[token] @ up[e]).tanh() * weight[token, slot, None])
    loss = out.square().sum()
    return loss


def batched(x, router, up):
    scores = (x @ router).softmax(-1)
    weight, chosen = scores.topk(2, dim=-1)
    away = chosen >= HERE
    index = torch.where(away, 0, chosen)
    weight = torch.where(away, weight - weight.detach(), weight)
    h = torch.einsum("td,tkdh->tkh", x, up[index]).tanh()
    out = (h * weight[..., None]).sum(1)
    loss = out.square().sum()
    return loss


torch.manual_seed(3)
given = torch.randn(5, 4), torch.randn(4, 3), torch.randn(HERE, 4, 4)
report = bp.diff(bp.probe(reference, wrt="router")(*given), bp.probe(batched, wrt="router")(*given))
told = str(report)
assert report.findings, told
assert "the gradient of 'router' differs" in " ".join(told.split()), told
pairs = {(row.a.name, row.b.name) for row in report.rows}
assert ("out#0", "out") not in pairs, pairs
assert ("out#2", "out") in pairs, pairs
