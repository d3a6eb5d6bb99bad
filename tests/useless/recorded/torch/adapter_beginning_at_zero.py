# from: own
# truth: healthy: the up-projection is 0 at first, so the down-projection has gradient 0 once
# kind: healthy
import torch
from torch import nn


class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(9, 9).requires_grad_(False)
        self.down, self.up = nn.Linear(9, 2, bias=False), nn.Linear(2, 9, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


torch.manual_seed(0)
PROBED = Adapted()
GIVEN = (torch.randn(5, 9),)
OPTIONS = {"of": lambda y: y.square().mean()}
