"""The reference: each head of keys and values serves two heads of queries that lie side by side."""

import torch


def attention(x, wq, wk, wv, wo):
    q = (x @ wq).unflatten(-1, (4, 2)).transpose(1, 2)
    k = (x @ wk).unflatten(-1, (2, 2)).transpose(1, 2)
    v = (x @ wv).unflatten(-1, (2, 2)).transpose(1, 2)
    keys, values = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
    weights = torch.softmax(q @ keys.mT / 2**0.5, -1)
    mixed = weights @ values
    out = mixed.transpose(1, 2).flatten(2) @ wo
    return out
