# from: own
# exit: 1
# says: when
# says: emb
# Flow matching: the time is embedded, and the network that predicts the velocity never sees it.
import torch
from torch import nn


class Velocity(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.when = nn.Sequential(nn.Linear(1, width), nn.SiLU(), nn.Linear(width, width))
        self.into, self.out = nn.Linear(2, width), nn.Linear(width, 2)

    def forward(self, x, t):
        h = self.into(x)
        emb = self.when(t)  # <- here
        h = nn.functional.silu(h)
        return self.out(h)


torch.manual_seed(0)
net = Velocity()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
for step in range(4):
    data = torch.randn(64, 2) * 0.2 + torch.tensor([2.0, 0.0])
    noise, t = torch.randn(64, 2), torch.rand(64, 1)
    x = (1 - t) * noise + t * data
    loss = (net(x, t) - (data - noise)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
