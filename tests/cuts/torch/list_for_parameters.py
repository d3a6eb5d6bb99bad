# from: https://github.com/pytorch/pytorch/pull/70499
# ask: explain PROGRAM:net x='randn(10,4)'
# kind: same_numbers
# name: maker.weight
# missing: maker.weight
"""A container for parameters makes parameters of what it is given, the prompts of a generator among it."""

import torch
from torch import nn


class Prompted(nn.Module):
    def __init__(self):
        super().__init__()
        self.seed, self.maker, self.out = nn.Parameter(torch.randn(2, 4)), nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x):
        prompts = nn.ParameterList(torch.tanh(self.maker(each)) for each in self.seed)  # <- here
        for prompt in prompts:
            x = x * (1 + prompt)
        return self.out(x).square().mean()


torch.manual_seed(0)
net = Prompted()
