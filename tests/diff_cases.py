"""A small program and its recordings, which tests of ``bp.diff`` share."""

import torch

import backprobe as bp


def f(x, w):
    u = x * w
    v = torch.sin(u)
    y = v + u
    loss = y.sum()
    return loss


X, W = torch.tensor([1.0, -2.0, 3.0]), torch.tensor([0.5, 1.5, -1.0])


def recorded(function, *args, **options):
    return bp.probe(function, **options)(*(args or (X, W)))
