"""A port of an attention gives other numbers than its reference. Which line differs first?"""

import torch

import backprobe as bp


def reference(x, wq, wk, wv):
    q, k, v = x @ wq, x @ wk, x @ wv
    scores = q @ k.T / k.shape[-1] ** 0.5
    weights = torch.softmax(scores, -1)
    out = weights @ v
    return out.square().mean()


def ported(x, wq, wk, wv):
    q, k, v = x @ wq, x @ wk, x @ wv
    scores = q @ k.T / k.shape[-2] ** 0.5
    weights = torch.softmax(scores, -1)
    out = weights @ v
    return out.square().mean()


torch.manual_seed(0)
arguments = torch.randn(6, 4), torch.randn(4, 4), torch.randn(4, 4), torch.randn(4, 4)

print(bp.diff(bp.probe(reference)(*arguments), bp.probe(ported)(*arguments)))
