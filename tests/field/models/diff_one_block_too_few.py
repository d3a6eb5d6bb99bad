# from: https://github.com/majumderb/rezero/issues/16
# ask: python
# says: complete False
# says: blocks\.2
# never: all .*(agree|compared)
# Blocks whose last scale is zero change nothing at first: the port has one less, and all values agree.
import torch
from torch import nn

import backprobe as bp


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.scale = nn.Linear(4, 4), nn.Parameter(torch.zeros(()))

    def forward(self, x):
        return x + self.scale * self.linear(x).tanh()


class Model(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.blocks, self.head = nn.ModuleList(Block() for _ in range(count)), nn.Linear(4, 2)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


torch.manual_seed(0)
model, port = Model(3), Model(2)
port.load_state_dict({k: v for k, v in model.state_dict().items() if not k.startswith("blocks.2")})
x = torch.randn(5, 4)
one, two = (bp.probe(each, of=lambda y: y.square().mean())(x) for each in (model, port))
report = bp.diff(one, two)
print(report)
print("complete", report.complete)
