# from: own
# ask: python
import torch
from torch import nn

import backprobe as bp


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a = nn.Linear(8, width)

    def forward(self, x):
        h = self.a(x)
        return h


for seed in range(6):
    torch.manual_seed(seed)
    net, x = Net([64, 16, 3][seed % 3]), torch.randn(5, 8)
    report = bp.check(net)(x)
    report.assert_ok(strict=True)
    assert "kink" not in str(report), (seed, str(report))
