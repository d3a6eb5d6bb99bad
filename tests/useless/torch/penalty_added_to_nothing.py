# from: https://github.com/jingyaogong/minimind/issues/140
# truth: loss.add() gives a new tensor that nobody keeps, so the load-balancing loss never reaches the backward pass
# kind: other
# names: balance
import torch
import torch.nn.functional as F
from torch import nn


class TopOne(nn.Module):
    def __init__(self, d, n):
        super().__init__()
        self.gate = nn.Linear(d, n, bias=False)
        self.experts = nn.ModuleList(nn.Linear(d, d) for _ in range(n))

    def forward(self, x):
        p = self.gate(x).softmax(-1)
        top, which = p.max(-1)
        out = torch.stack([expert(x) for expert in self.experts], 1)
        share = F.one_hot(which, p.shape[1]).float().mean(0)
        self.balance = p.shape[1] * (share * p.mean(0)).sum()
        return x + top[:, None] * out[torch.arange(len(x)), which]


torch.manual_seed(0)
moe, head = TopOne(6, 3), nn.Linear(6, 2)
optimizer = torch.optim.Adam([*moe.parameters(), *head.parameters()], lr=5e-3)
x = torch.randn(50, 6)
y = (x[:, 0] * x[:, 1] > 0).long()
for step in range(3):
    loss = F.cross_entropy(head(moe(x)), y)
    loss.add(0.1 * moe.balance)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), moe.balance.item())
