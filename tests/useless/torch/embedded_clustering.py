# from: https://github.com/vlukiyanov/pt-dec
# truth: healthy: the target is the sharpened assignment itself, detached, and all points are compared with all centres
# kind: healthy
import torch
from torch import nn


class Clusters(nn.Module):
    def __init__(self, count=3, width=2):
        super().__init__()
        self.centers = nn.Parameter(torch.randn(count, width))

    def forward(self, points):
        squared = (points.unsqueeze(1) - self.centers).pow(2).sum(2)
        weight = 1.0 / (1.0 + squared)
        return weight / weight.sum(dim=1, keepdim=True)


def sharpened(assigned):
    weight = assigned**2 / assigned.sum(0)
    return (weight.t() / weight.sum(1)).t()


torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
clusters = Clusters()
optimizer = torch.optim.SGD([*encoder.parameters(), *clusters.parameters()], lr=0.05, momentum=0.9)
criterion = nn.KLDivLoss(reduction="batchmean")
points = torch.randn(30, 6) + torch.randint(0, 3, (30, 1)) * 2
for epoch in range(4):
    assigned = clusters(encoder(points))
    loss = criterion(assigned.log(), sharpened(assigned).detach())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, f"{loss.item():.5f}")
