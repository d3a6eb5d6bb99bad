# from: https://github.com/TransformerLensOrg/TransformerLens/pull/168
# ask: python
# says: exact True
# says: sum True
# What lies behind the last nonlinear layer is attributed exactly, and its parts sum to the change.
import torch
from torch import nn

import backprobe as bp


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 4))
        self.b = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 4))
        self.out = nn.Linear(4, 3)

    def forward(self, x):
        return self.out(self.a(x) + self.b(x))


torch.manual_seed(0)
model = Heads()
clean, corrupt = torch.randn(1, 5), torch.randn(1, 5)
result = bp.attribute(model, clean, corrupt, ["a", "b"], of=lambda y: y[0, 0])
print(result)
with torch.no_grad():
    for name, part in (("a", model.a), ("b", model.b)):
        by_hand = (part(clean) - part(corrupt)) @ model.out.weight[0]
        print("exact", abs(result[name] - by_hand.item()) < 1e-5)
    change = (model(clean) - model(corrupt))[0, 0].item()
print("sum", abs(result["a"] + result["b"] - change) < 1e-5)
