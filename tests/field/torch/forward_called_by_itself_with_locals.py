# from: own
# ask: python
import torch
from torch import nn

import backprobe as bp


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return self.linear.forward(x)


class Scaled(Base):
    def forward(self, x):
        y = super().forward(x)
        return y * 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Scaled()

    def forward(self, x):
        h = self.part.forward(x)
        return h.square().sum()


torch.manual_seed(0)
model, x = Net(), torch.randn(2, 3)
with bp.probe(model, ["**", "**:*"]) as rec:
    model(x).backward()
for name in ("part", "part.linear", "part:y", "h"):
    assert str(rec[name].status) == "ok", (name, rec[name].reason)
y = x @ model.part.linear.weight.T + model.part.linear.bias
assert torch.allclose(rec["part"].value, y * 2), rec["part"].value
assert torch.allclose(rec["part.linear"].grad, 8 * y), rec["part.linear"].grad
assert "no call" not in str(bp.explain(rec)), str(bp.explain(rec))
