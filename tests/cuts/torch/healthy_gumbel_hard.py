# from: own
# ask: explain
# kind: healthy
"""A hard choice on the way forward whose slope is that of the soft one."""

import torch
from torch import nn

torch.manual_seed(0)
gate, experts = nn.Linear(5, 3), nn.ModuleList(nn.Linear(5, 1) for _ in range(3))
optimizer = torch.optim.Adam([*gate.parameters(), *experts.parameters()], lr=1e-2)
x, y = torch.randn(18, 5), torch.randn(18, 1)
for _ in range(3):
    choice = nn.functional.gumbel_softmax(gate(x), tau=0.7, hard=True)
    each = torch.cat([expert(x) for expert in experts], 1)
    loss = ((choice * each).sum(1, keepdim=True) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
