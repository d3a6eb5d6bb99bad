# from: https://pytorch-forecasting.readthedocs.io/en/stable/api/pytorch_forecasting.metrics.quantile.QuantileLoss.html
# truth: healthy: [N, 1] targets against [N, 3] quantiles is wanted; the pinball loss has constant slopes
# kind: healthy
import torch
from torch import nn

torch.manual_seed(0)
levels = torch.tensor([0.1, 0.5, 0.9])
net = nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
x = torch.rand(120, 1)
y = 2 * x + x * torch.randn(120, 1)
for epoch in range(5):
    errors = y - net(x)
    loss = torch.max((levels - 1) * errors, levels * errors).sum(1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
