# from: own
# ask: health PROGRAM
import torch
from torch import nn


class Low(nn.Module):
    def __init__(self, base, rank=2):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, base.in_features) * 0.3)
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + x @ self.a.T @ self.b.T


torch.manual_seed(0)
model = nn.Sequential(Low(nn.Linear(6, 8)), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
for step in range(3):
    x = torch.randn(16, 6)
    loss = (model(x) - x[:, :1]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, float(model[0].a.grad.abs().max()), float(model[0].b.grad.abs().max()))
