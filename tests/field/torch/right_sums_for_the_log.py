# from: own
# exit: 0
# never: adds
# Sums that are logged and not differentiated: of losses that are differentiated one by one, of earlier losses, of a
# loss and a number.
import torch
from torch import nn

torch.manual_seed(0)
one, other = nn.Linear(3, 2), nn.Linear(3, 2)
optimizer = torch.optim.SGD([*one.parameters(), *other.parameters()], lr=0.1)
running = 0.0
for _ in range(4):
    optimizer.zero_grad()
    x = torch.randn(5, 3)
    fit, penalty = one(x).square().mean(), other(x).abs().mean()
    total = fit + penalty
    logged = fit + one.weight.detach().norm()
    fit.backward()
    penalty.backward()
    running += total.item()
    optimizer.step()
    print(total.item(), logged.item(), running)
