# from: https://www.codegenes.net/blog/gradual-unfreezing-pytorch
# ask: watch
# exit: 0
# says: watched
# never: step \d+:
# One part more is trained after each stage, each time by a new optimizer for all that is free.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(
    nn.Sequential(nn.Linear(8, 16), nn.GELU()),
    nn.Sequential(nn.Linear(16, 16), nn.GELU()),
    nn.Linear(16, 3),
)
model.requires_grad_(False)
for stage, part in enumerate((model[2], model[1], model[0])):
    part.requires_grad_(True)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=5e-3 / (stage + 1))
    for step in range(30):
        x = torch.randn(32, 8)
        loss = nn.functional.cross_entropy(model(x), x[:, :3].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
