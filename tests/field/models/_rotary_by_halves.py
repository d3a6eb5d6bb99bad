"""Rotary embedding that pairs the halves of a head, and attention scores."""

import torch


def angles(length, width):
    frequencies = 10_000 ** (-torch.arange(0, width, 2) / width)
    return torch.arange(length)[:, None] * frequencies


def rotate_half(x):
    x1, x2 = x.chunk(2, -1)
    return torch.cat([-x2, x1], -1)


def scores(q, k):
    turned = angles(q.shape[-2], q.shape[-1]).repeat(1, 2)
    q = q * turned.cos() + rotate_half(q) * turned.sin()
    k = k * turned.cos() + rotate_half(k) * turned.sin()
    weights = (q @ k.mT).softmax(-1)
    return weights
