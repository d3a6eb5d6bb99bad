# from: https://discuss.pytorch.org/t/gpu-memory-increase-while-i-wanna-to-backward-with-accumulative-loss/43284
# ask: memory
# exit: 0
# never: keeps the graphs
# never: next:
# The loss of the last step, a moving average and a state that is detached: nothing grows.
import torch
from torch import nn

torch.manual_seed(0)
cell, head = nn.GRUCell(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
state, average, best = torch.zeros(16, 8), torch.zeros(()), None
for step in range(20):
    state = cell(torch.randn(16, 4), state.detach())
    loss = (head(state) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average = 0.9 * average + 0.1 * loss.detach()
    if best is None or loss < best:
        best = loss
