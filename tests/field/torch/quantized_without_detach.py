# from: https://github.com/kyegomez/BitNet/issues/51
# exit: 1
# says: weight
# never: no_grad
"""A layer with weights of few values adds the difference to the rounded ones, and does not detach it."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class FewValues(nn.Linear):
    def forward(self, x):
        scale = self.weight.detach().abs().mean()
        rounded = (self.weight / scale).round().clamp(-1, 1) * scale
        weight = self.weight + (rounded - self.weight)  # <- here
        return F.linear(x, weight, self.bias)


model = nn.Sequential(FewValues(6, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(3):
    x, y = torch.randn(32, 6), torch.randint(0, 3, (32,))
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
