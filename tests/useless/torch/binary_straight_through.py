# from: https://github.com/itayhubara/BinaryNet.pytorch
# truth: healthy: sign() has no slope, and so x + (sign(x) - x).detach() lends it one
# kind: healthy
import torch
from torch import nn


class BinaryLinear(nn.Linear):
    def forward(self, x):
        binary = self.weight + (self.weight.sign() - self.weight).detach()
        return nn.functional.linear(x, binary, self.bias)


torch.manual_seed(0)
net = nn.Sequential(BinaryLinear(8, 32), nn.Hardtanh(), BinaryLinear(32, 3))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
x = torch.randn(60, 8).sign()
y = (x[:, :4].sum(1) > 0).long() + (x[:, 4:].sum(1) > 0).long()
for epoch in range(5):
    loss = nn.functional.cross_entropy(net(x) / 8, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for p in net.parameters():
            p.clamp_(-1, 1)
    print(epoch, loss.item())
