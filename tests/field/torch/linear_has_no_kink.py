# from: own
# ask: python
import torch
from torch import nn

import backprobe as bp


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 64)

    def forward(self, x):
        h = self.layer(x)
        return h


for seed in range(20):
    torch.manual_seed(seed)
    told = str(bp.check(Plain())(torch.randn(5, 8)))
    assert "kink" not in told, told
    assert "jumps" not in told, told
