# from: https://github.com/sthalles/SimCLR/blob/master/simclr.py
# truth: healthy: the table of all similarities is wanted, its diagonal is removed
# kind: healthy
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 8))
optimizer = torch.optim.Adam(encoder.parameters(), lr=3e-3)
things = torch.randn(16, 10)
for step in range(4):
    views = torch.cat([things + 0.2 * torch.randn(16, 10) for _ in range(2)])
    features = F.normalize(encoder(views), dim=1)
    similarity = features @ features.T
    labels = (torch.arange(32) + 16) % 32
    similarity = similarity.masked_fill(torch.eye(32, dtype=torch.bool), float("-inf"))
    loss = F.cross_entropy(similarity / 0.2, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
