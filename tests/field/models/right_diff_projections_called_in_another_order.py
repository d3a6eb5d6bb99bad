# from: own
# ask: python
# says: ok True
# never: differs? first
# Three layers of one shape with other names, which run in another order.
import torch
from torch import nn

import backprobe as bp


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        return (q @ k.mT / 6**0.5).softmax(-1) @ v


class Port(nn.Module):
    def __init__(self, given):
        super().__init__()
        self.to_v, self.to_q, self.to_k = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)
        for own, other in (("to_q", "query"), ("to_k", "key"), ("to_v", "value")):
            getattr(self, own).load_state_dict(getattr(given, other).state_dict())

    def forward(self, x):
        mixed = self.to_v(x)
        asked = self.to_q(x)
        return (asked @ self.to_k(x).mT / 6**0.5).softmax(-1) @ mixed


torch.manual_seed(0)
model = Attention()
x = torch.randn(2, 5, 6)
one, two = (bp.probe(each, of=lambda y: y.square().mean())(x) for each in (model, Port(model)))
report = bp.diff(one, two)
print(report)
print("ok", report.ok)
