# from: own
# ask: diff PROGRAM:reference PROGRAM:port x='zeros(0,4)' w='randn(4,3)'
# exit: 1
# says: ^values differ first at 'y'
# says: shape
# A batch without samples has no number that could differ: its shape does.
import torch


def reference(x, w):
    y = torch.tanh(x @ w)
    loss = y.sum()
    return loss


def port(x, w):
    y = torch.tanh(w.T @ x.T)  # <- here
    loss = y.sum()
    return loss
