# from: https://github.com/JeremyLinux/PyTorch-Radial-Basis-Function-Layer
# truth: healthy: distances of all points to all centres by broadcasting [N, 1, D] - [1, K, D]
# kind: healthy
import torch
from torch import nn


class Rbf(nn.Module):
    def __init__(self, i, k):
        super().__init__()
        self.centres, self.log_sigmas = nn.Parameter(torch.randn(k, i)), nn.Parameter(torch.zeros(k))

    def forward(self, x):
        squared = (x[:, None, :] - self.centres[None]).pow(2).sum(-1)
        return torch.exp(-squared / self.log_sigmas.exp().pow(2))


torch.manual_seed(0)
net = nn.Sequential(Rbf(2, 12), nn.Linear(12, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
x = torch.rand(60, 2) * 4 - 2
y = ((x[:, :1] ** 2 + x[:, 1:] ** 2) < 1.5).float()
for epoch in range(5):
    loss = nn.functional.binary_cross_entropy_with_logits(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
