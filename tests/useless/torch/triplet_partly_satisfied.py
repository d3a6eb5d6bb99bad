# from: https://docs.pytorch.org/docs/stable/generated/torch.nn.TripletMarginLoss.html
# truth: healthy: many triplets are satisfied already; the last bias cancels in each distance, as in any embedding
# kind: healthy
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 4))
criterion = nn.TripletMarginLoss(margin=1.0, p=2)
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
centers = 1.5 * torch.randn(5, 6)
for step in range(5):
    kind = torch.randint(0, 5, (48,))
    other = (kind + torch.randint(1, 5, (48,))) % 5
    anchor, positive = (net(centers[kind] + 0.5 * torch.randn(48, 6)) for _ in range(2))
    negative = net(centers[other] + 0.5 * torch.randn(48, 6))
    loss = criterion(anchor, positive, negative)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
