# from: own
# ask: python
import torch
from torch import nn

import backprobe as bp


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 5), nn.Tanh())
        self.head = nn.Linear(5, 2)

    def forward(self, x):
        hidden = self.body(x)
        out = {"logits": self.head(hidden), "hidden": hidden}
        return out["logits"].sum()


torch.manual_seed(0)
net = Net()
before = {name: value.clone() for name, value in net.state_dict().items()}
names = bp.names(net)
seen = names.after(torch.randn(2, 3)) or names
assert set(list(names)) <= set(list(seen)) or len(list(seen)) >= len(list(names)), (list(names), list(seen))
assert "body" in list(seen) and "head.weight" in list(seen), list(seen)
assert any(name.lstrip(":") == "hidden" for name in seen), list(seen)
assert str(seen)
assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
assert all(p.grad is None for p in net.parameters())
