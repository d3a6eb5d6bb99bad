# from: own
# ask: diff PROGRAM:reference PROGRAM:port x='randn(5,4)' w='[[1.0,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]]'
# exit: 1
# says: gradients differ first at 'w'
# never: values differ first
# never: lies otherwise
# A weight that starts as the identity is its own transpose: the values agree, and training goes another way.
import torch


def reference(x, w):
    h = torch.tanh(x @ w)
    loss = (h * x.roll(1, 0)).sum()
    return loss


def port(x, w):
    h = torch.tanh(x @ w.T)
    loss = (h * x.roll(1, 0)).sum()
    return loss
