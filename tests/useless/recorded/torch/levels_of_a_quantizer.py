# from: own
# truth: round has derivative 0, and everything goes through it
# kind: every zero
import torch
from torch import nn


class Quantizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Conv1d(1, 4, 3, padding=1)
        self.gain = nn.Parameter(torch.ones(4, 1))

    def forward(self, wave):
        levels = (self.encode(wave) * self.gain * 8).round() / 8  # <- here
        return (levels.mean(1, keepdim=True) - wave).square().mean()


torch.manual_seed(0)
PROBED = Quantizer()
GIVEN = (torch.randn(4, 1, 30),)
