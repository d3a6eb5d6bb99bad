# from: https://github.com/pytorch/pytorch/issues/19806
# exit: 3
# says: frozen|requires_grad ?= ?False
# never: detach\(\)` copies
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
for p in model.parameters():
    p.requires_grad = False
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = nn.functional.cross_entropy(model(torch.randn(6, 4)), torch.randint(0, 2, (6,)))
loss.backward()
optimizer.step()
