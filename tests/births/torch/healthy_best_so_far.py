# from: own
# ask: explain --nonfinite
# birth: healthy
# given: best
"""The best loss begins at infinity."""

import torch

torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
x = torch.randn(12, 3)
y, best = x.sum(1, keepdim=True), torch.tensor(float("inf"))
for _ in range(4):
    loss = (model(x) - y).square().mean()
    best = torch.minimum(best, loss.detach())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
