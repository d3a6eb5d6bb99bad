# from: https://github.com/X-GenGroup/Flow-Factory/pull/186
# exit: 1
# says: load_state_dict
# says: set back|undone|undoes|restores|same (values?|numbers)|overwrit
# The average is loaded into the network in front of each batch, and nobody ever moves the average.
import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
average = copy.deepcopy(model).requires_grad_(False)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(64, 4)
y = x.prod(1, keepdim=True)
for epoch in range(5):
    model.load_state_dict(average.state_dict())  # <- here
    loss = (model(x) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
