# from: https://github.com/pytorch/examples/blob/main/gat/main.py
# truth: healthy: scores of all pairs come of a wanted outer sum, pairs without an edge are masked before the softmax
# kind: healthy
import torch
import torch.nn.functional as F
from torch import nn


class Attend(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.w = nn.Linear(i, o, bias=False)
        self.left, self.right = nn.Linear(o, 1, bias=False), nn.Linear(o, 1, bias=False)

    def forward(self, x, edges):
        h = self.w(x)
        scores = F.leaky_relu(self.left(h) + self.right(h).T, 0.2)
        weights = torch.softmax(scores.masked_fill(edges == 0, -9e15), dim=1)
        return weights @ h


torch.manual_seed(0)
edges = ((torch.rand(12, 12) < 0.25).float() + torch.eye(12)).clamp(max=1)
x, y = torch.randn(12, 6), torch.arange(12) % 3
first, second = Attend(6, 8), Attend(8, 3)
optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.02)
for epoch in range(4):
    out = second(F.elu(first(x, edges)), edges)
    loss = F.nll_loss(F.log_softmax(out, 1)[:8], y[:8])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
