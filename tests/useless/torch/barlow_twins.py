# from: https://github.com/facebookresearch/barlowtwins/blob/main/main.py
# truth: healthy: the cross-correlation of all features with all is wanted, and normalised over the batch
# kind: healthy
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 8, bias=False))
norm = nn.BatchNorm1d(8, affine=False)
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
x = torch.randn(64, 6)
for step in range(5):
    a, b = (norm(net(x + 0.3 * torch.randn_like(x))) for _ in range(2))
    c = a.T @ b / 64
    on = (c.diagonal() - 1).pow(2).sum()
    off = (c - torch.diag(c.diagonal())).pow(2).sum()
    loss = on + 0.0051 * off
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
