# from: https://github.com/majumderb/rezero
# truth: healthy: each residual weight begins at zero but is a trained parameter, the branch wakes up after one step
# kind: healthy
import torch
from torch import nn


class ReZero(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.resweight = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return x + self.resweight * torch.relu(self.linear(x))


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 16), *[ReZero(16) for _ in range(4)], nn.Linear(16, 1))
optimizer = torch.optim.Adagrad(net.parameters(), lr=0.05)
x = torch.rand(64, 4)
y = torch.sin(4 * x[:, :1]) + x[:, 1:2]
for step in range(6):
    loss = (net(x) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
