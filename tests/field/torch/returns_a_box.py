# from: own
# ask: python
import torch
from torch import nn

import backprobe as bp


class Box:
    def __init__(self, tensor):
        self.tensor = tensor


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x):
        return Box(self.linear(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Part()

    def forward(self, x):
        return self.part(x).tensor.square().sum()


torch.manual_seed(0)
net = Net()
with bp.probe(net) as rec:
    net(torch.ones(1, 2)).backward()
names = [name for name in rec if name == "part" or name.startswith("part:return")]
assert names, list(rec)
said = " ".join([str(rec[names[0]].reason), *map(str, rec.notes)])
assert "Box" in said or rec[names[0]].grad_or_none is not None, said
assert "not seen to run" not in said and "did not run" not in said, said
