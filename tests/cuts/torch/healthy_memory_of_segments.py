# from: own
# ask: explain
# kind: healthy
"""The hidden state of one segment is carried into the next without its history."""

import torch
from torch import nn

torch.manual_seed(0)
cell, out, state = nn.GRUCell(3, 6), nn.Linear(6, 3), torch.zeros(4, 6)
optimizer = torch.optim.RMSprop([*cell.parameters(), *out.parameters()], lr=1e-3)
stream = torch.randn(20, 4, 3)
for begin in range(0, 15, 5):
    state = state.data
    loss = torch.zeros(())
    for at in range(begin, begin + 4):
        state = cell(stream[at], state)
        loss = loss + (out(state) - stream[at + 1]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
