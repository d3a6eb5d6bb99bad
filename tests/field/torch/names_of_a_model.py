# from: own
# ask: python
import torch
from torch import nn

import backprobe as bp

calls = []


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        calls.append(1)
        scores = self.query(x) @ self.key(x).transpose(-1, -2)
        return scores.softmax(-1) @ x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.head = nn.ModuleList([Block(), Block()]), nn.Linear(4, 1)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        pooled = x.mean(0)
        return self.head(pooled).sum()


net = Net()
names = bp.names(net)
assert not calls
for name in ["blocks.0", "blocks.1.key", "blocks.1.key.weight", "head.bias", "blocks.0:scores", ":pooled"]:
    assert name in list(names) or name.lstrip(":") in list(names), (name, list(names))
text = str(names)
assert "head" in text and "scores" in text and len(text.splitlines()) > 4, text
assert not calls
few = list(bp.names(net, "blocks.*"))
assert few and all(name.startswith("blocks.") for name in few), few
assert "head" not in few
rec = bp.probe(net, few)(torch.randn(3, 4))
assert len(rec) > 0
