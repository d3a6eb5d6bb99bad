# from: own
# ask: python
import snntorch as snn
import torch
from torch import nn

import backprobe as bp


def membrane_of(x):
    lif = snn.Leaky(beta=0.9)
    mem = torch.zeros(3, dtype=x.dtype)
    for _ in range(2):
        _, mem = lif(x, mem)
    return mem.sum()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.lif = nn.Linear(3, 4), snn.Leaky(beta=0.9)

    def forward(self, x):
        mem = self.lif.init_leaky()
        _, mem = self.lif(self.fc(x), mem)
        return mem.sum()


torch.manual_seed(0)
assert "lif" in str(bp.check(membrane_of)(torch.tensor([0.3, -0.2, 0.1])))
net = Net()
report = str(bp.check(net)(torch.randn(2, 3)))
assert report
net(torch.randn(5, 3)).backward()
assert net.fc.weight.grad is not None
