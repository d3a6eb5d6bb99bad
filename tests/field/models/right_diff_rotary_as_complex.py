# from: https://github.com/Lightning-AI/litgpt/issues/1860
# ask: diff PROGRAM:by_pairs PROGRAM:as_complex q='randn(2,6,8)' k='randn(2,6,8)' --cotangent 'randn(2,6,6)'
# exit: 0
# says: values agree|no difference|nothing differs
# never: differs? first
# never: ×.*!
# The same rotation, once with sines and cosines and once as a product of complex numbers.
import torch

TURNED = torch.arange(6)[:, None] * 10_000 ** (-torch.arange(0, 8, 2) / 8)


def by_pairs(q, k):
    def rotated(x):
        even, odd = x[..., ::2], x[..., 1::2]
        cos, sin = TURNED.cos(), TURNED.sin()
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)

    q, k = rotated(q), rotated(k)
    weights = (q @ k.mT).softmax(-1)
    return weights


def as_complex(q, k):
    turns = torch.polar(torch.ones_like(TURNED), TURNED)

    def rotated(x):
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * turns).flatten(-2)

    q, k = rotated(q), rotated(k)
    weights = (q @ k.mT).softmax(-1)
    return weights
