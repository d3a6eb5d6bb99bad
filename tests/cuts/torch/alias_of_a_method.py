# from: own
# ask: explain PROGRAM:loss_of x='[1.0, 2.0, 3.0]' w='[0.5, -1.0, 2.0]'
# kind: same_numbers
# name: x
# missing: x
import torch

settled = torch.Tensor.detach


def loss_of(x, w):
    u = torch.tanh(x)
    anchor = settled(u)  # <- here
    return ((anchor * w) ** 2).sum()
