# from: own
# ask: diff PROGRAM:reference PROGRAM:port x='randn(6,4)' w='randn(4,4)' wv='randn(4,4)'
# exit: 1
# says: ^values differ first at 'weights'
# never: 'scores' differs
# never: lies otherwise
# Where queries are keys the scores are symmetric: a softmax over the wrong axis is the transpose of the right one.
import torch


def reference(x, w, wv):
    scores = (x @ w) @ (x @ w).T / 2
    weights = scores.softmax(-1)
    out = weights @ (x @ wv)
    loss = out.square().sum()
    return loss


def port(x, w, wv):
    scores = (x @ w) @ (x @ w).T / 2
    weights = scores.softmax(0)  # <- here
    out = weights @ (x @ wv)
    loss = out.square().sum()
    return loss
