# from: https://github.com/huggingface/transformers/issues/25199
# ask: diff _rotary_by_halves.py:scores PROGRAM:scores q='randn(2,6,8)' k='randn(2,6,8)' --cotangent 'randn(2,6,6)'
# exit: 1
# says: ^values differ first at 'turned'
# says: '/rotate_half#0:x1' differs
# The port pairs neighbours where the reference pairs the halves of a head.
import torch


def angles(length, width):
    frequencies = 10_000 ** (-torch.arange(0, width, 2) / width)
    return torch.arange(length)[:, None] * frequencies


def rotate_half(x):
    x1, x2 = x[..., ::2], x[..., 1::2]  # <- here
    return torch.stack([-x2, x1], -1).flatten(-2)


def scores(q, k):
    turned = angles(q.shape[-2], q.shape[-1]).repeat_interleave(2, 1)
    q = q * turned.cos() + rotate_half(q) * turned.sin()
    k = k * turned.cos() + rotate_half(k) * turned.sin()
    weights = (q @ k.mT).softmax(-1)
    return weights
