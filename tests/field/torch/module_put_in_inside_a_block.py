# from: own
# ask: python
# Two modules stood at one path: no two rows have one name, and both are found.
import torch
from torch import nn

import backprobe as bp


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 1)

    def forward(self, x):
        h = self.first(x).tanh()
        return self.second(h)


net, x = Net(), torch.ones(1, 2)
old = net.second
with bp.probe(net, ["**", "**:*"]) as rec:
    first = net(x).sum()
    net.second = nn.Linear(2, 1)
    (first + net(x).sum()).backward()
names = list(rec)
assert len({*names}) == len(names), names
rows = [line.split()[0] for line in str(rec).splitlines()[1:] if line.split()[0] not in ("=", "gradients")]
assert len({*rows}) == len(rows), rows
numbers = [one.grad.tolist() for one in rec.values() if "second.weight" in one.name]
assert numbers == [old.weight.grad.tolist(), net.second.weight.grad.tolist()], numbers
