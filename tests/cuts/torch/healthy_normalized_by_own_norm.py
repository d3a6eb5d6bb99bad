# from: own
# ask: explain
# kind: healthy
"""Terms of a loss are brought to one size by their own values, which are held fixed."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
x, y = torch.randn(10, 4), torch.randn(10, 3)
for _ in range(3):
    error = net(x) - y
    terms = [error.square().mean(), error.abs().mean(), torch.logsumexp(error, 0).mean()]
    loss = sum(term / (abs(term.item()) + 1e-8) for term in terms)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
