# from: https://github.com/locuslab/deq
# truth: healthy: the solver runs without a graph, one more step at its result carries the gradient
# kind: healthy
import torch
from torch import nn


class Equilibrium(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.inner, self.norm = nn.Linear(d, d, bias=False), nn.LayerNorm(d)
        nn.init.normal_(self.inner.weight, std=0.05)

    def step(self, z, x):
        return self.norm(torch.tanh(self.inner(z) + x))

    def forward(self, x):
        with torch.no_grad():
            z = torch.zeros_like(x)
            for _ in range(15):
                z = self.step(z, x)
        return self.step(z, x)


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 10), Equilibrium(10), nn.Linear(10, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
x = torch.randn(40, 4)
y = (x[:, 0] * x[:, 1] > 0).long()
for epoch in range(4):
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
