# from: own
# ask: python
# says: zero True
# never: nan
# Nothing changes between two prompts that are alike: each part has zero, and no share is divided by it.
import torch
from torch import nn

import backprobe as bp


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.out = nn.Linear(4, 6), nn.Linear(4, 6), nn.Linear(6, 2)

    def forward(self, x):
        return self.out(self.a(x).relu() * self.b(x))


torch.manual_seed(0)
model, x = Model(), torch.randn(3, 4)
result = bp.attribute(model, x, x.clone(), ["a", "b"], of=lambda y: y[:, 0].sum())
print(result)
print("zero", result["a"] == result["b"] == 0)
