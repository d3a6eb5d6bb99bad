# from: https://discuss.pytorch.org/t/implementation-difference-between-tensorflow-v1-lstmblockfusedcell-and-pytorch-lstm/146907
# ask: diff PROGRAM:reference PROGRAM:port x='randn(4,6)' w1='randn(6,6)' w2='randn(6,6)'
# exit: 1
# says: ^values differ first at 'y'
# says: what it is computed from agrees: .*'h'
# never: 'h' differs
# A square weight multiplied from the other side has the right shape.
import torch
import torch.nn.functional as F


def reference(x, w1, w2):
    h = F.silu(F.linear(x, w1))
    y = F.linear(h, w2)
    loss = y.square().mean()
    return loss


def port(x, w1, w2):
    h = torch.sigmoid(x @ w1.T) * (x @ w1.T)
    y = h @ w2  # <- here
    loss = y.square().mean()
    return loss
