# from: https://github.com/pytorch/pytorch/issues/38951
# exit: 1
# says: first\.weight|first
# says: exactly 0
# says: hook
# Pruned weights are to stay at 0, and the threshold prunes them all.
import torch
from torch import nn

torch.manual_seed(0)
first, last = nn.Linear(5, 8), nn.Linear(8, 1)
kept = (first.weight.detach().abs() > 2.0).float()
first.weight.register_hook(lambda slope: slope * kept)  # <- here
optimizer = torch.optim.SGD([*first.parameters(), *last.parameters()], lr=0.05)
for step in range(4):
    x = torch.randn(20, 5)
    loss = (last(first(x).tanh()) - x[:, :1]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
