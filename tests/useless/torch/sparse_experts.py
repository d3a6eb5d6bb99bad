# from: https://github.com/davidmrau/mixture-of-experts/blob/master/moe.py
# truth: healthy: two of eight experts run for each sample, and in some batches an expert has none at all
# kind: healthy
import torch
from torch import nn


class SparseMoe(nn.Module):
    def __init__(self, d=6, n=8, k=2):
        super().__init__()
        self.k, self.gate = k, nn.Linear(d, n, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(d, 8), nn.ReLU(), nn.Linear(8, 1)) for _ in range(n))

    def forward(self, x):
        p = self.gate(x).softmax(-1)
        top, which = p.topk(self.k, -1)
        top = top / top.sum(-1, keepdim=True)
        y = torch.zeros(len(x), 1)
        for e, expert in enumerate(self.experts):
            row, slot = torch.where(which == e)
            if len(row):
                y = y.index_add(0, row, top[row, slot, None] * expert(x[row]))
        load = torch.zeros_like(p).scatter(1, which, 1.0).mean(0)
        return y, p.shape[1] * (load * p.mean(0)).sum()


torch.manual_seed(0)
moe = SparseMoe()
optimizer = torch.optim.Adam(moe.parameters(), lr=0.01)
for step in range(4):
    x = torch.randn(5, 6)
    y, balance = moe(x)
    loss = (y - x[:, :1].abs()).pow(2).mean() + 0.01 * balance
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
