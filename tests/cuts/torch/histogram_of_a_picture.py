# from: https://github.com/albrateanu/LYT-Net/issues/16
# ask: explain
# kind: discrete
# name: tone.weight
# missing: tone.weight.grad
# moves: tone.weight.data *= 1.5
"""Two histograms are compared: which bin a pixel falls into has no slope."""

import torch
from torch import nn


def histogram(picture, bins=16):
    counts = torch.histc(picture, bins, 0.0, 1.0)  # <- here
    return counts / counts.sum()


torch.manual_seed(0)
tone, bias = nn.Conv2d(1, 1, 3, padding=1), nn.Parameter(torch.zeros(16))
optimizer = torch.optim.SGD([*tone.parameters(), bias], lr=0.1)
dark, bright = torch.rand(1, 1, 12, 12) * 0.5, torch.rand(1, 1, 12, 12)
wanted = histogram(bright)
for _ in range(3):
    enhanced = tone(dark).sigmoid()
    loss = (histogram(enhanced) + bias - wanted).abs().sum()  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
