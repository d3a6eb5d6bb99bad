# from: https://github.com/hyunwoongko/transformer/issues/15
# ask: diff PROGRAM:reference PROGRAM:port x='randn(2,6,8)' --cotangent 'randn(2,2,6,6)'
# exit: 1
# says: ^values differ first at 'q'
# says: line: q = projected
# Splitting into heads without a transpose gives the same shape and mixes the tokens.
import torch

torch.manual_seed(1)
query, key = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)


def reference(x):
    projected = query(x)
    q = projected.view(2, 6, 2, 4).transpose(1, 2)
    k = key(x).view(2, 6, 2, 4).transpose(1, 2)
    weights = (q @ k.mT / 2).softmax(-1)
    return weights


def port(x):
    projected = query(x)
    q = projected.view(2, 2, 6, 4)  # <- here
    k = key(x).view(2, 6, 2, 4).transpose(1, 2)
    weights = (q @ k.mT / 2).softmax(-1)
    return weights
