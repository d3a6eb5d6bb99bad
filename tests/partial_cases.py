"""A program and a way to probe it, which tests of partials share."""

import math

import torch

import backprobe as bp

NAN, INF = math.nan, math.inf


def probed(function, *args, partials=True, **options):
    return bp.probe(function, partials=partials, **options)(*args)


def vector(*numbers):
    return torch.tensor(numbers or (1.0, 2.0, 3.0))


def toy(x, w, b):
    u = x * w
    v = u + b
    a = torch.relu(v)
    return a
