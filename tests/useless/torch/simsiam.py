# from: https://github.com/facebookresearch/simsiam/blob/main/simsiam/builder.py
# truth: healthy: each side is compared with the other one detached, nothing is lost
# kind: healthy
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(8, 24, bias=False), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 12, bias=False))
predictor = nn.Sequential(nn.Linear(12, 6, bias=False), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 12))
optimizer = torch.optim.SGD([*encoder.parameters(), *predictor.parameters()], lr=0.05, momentum=0.9)
x = torch.randn(32, 8)
for step in range(4):
    z1, z2 = encoder(x + 0.2 * torch.randn_like(x)), encoder(x + 0.2 * torch.randn_like(x))
    p1, p2 = predictor(z1), predictor(z2)
    loss = -(F.cosine_similarity(p1, z2.detach()).mean() + F.cosine_similarity(p2, z1.detach()).mean()) * 0.5
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
