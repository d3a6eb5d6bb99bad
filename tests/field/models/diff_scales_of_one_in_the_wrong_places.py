# from: own
# ask: diff PROGRAM:reference PROGRAM:port x='randn(5,4)' before='ones(4)' after='ones(4)' w='randn(4,4)'
# exit: 1
# says: gradients differ first at '(before|after|a|h)'
# never: values differ first
# Two scales that begin as ones are exchanged: nothing shows until they are trained.
import torch


def reference(x, before, after, w):
    a = x * before
    h = torch.tanh(a @ w)
    y = h * after
    loss = y.square().mean()
    return loss


def port(x, before, after, w):
    a = x * after
    h = torch.tanh(a @ w)
    y = h * before
    loss = y.square().mean()
    return loss
