# from: https://pytorch.org/docs/stable/generated/torch.Tensor.masked_fill.html
# ask: explain --nonfinite PROGRAM:loss_of q='[[1.0, 2.0], [0.5, -1.0]]' k='[[1.0, 0.0], [2.0, 1.0]]'
# birth: healthy
import torch


def loss_of(q, k):
    later = torch.triu(torch.ones(2, 2, dtype=torch.bool), 1)
    scores = (q @ k.T).masked_fill(later, float("-inf"))
    weights = scores.softmax(-1)
    return (weights @ k).square().sum()
