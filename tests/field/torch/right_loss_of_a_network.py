# from: own
# exit: 0
# never: no optimizer
# A loss is measured through a fixed network in evaluation mode, whose parameters were left requiring gradients.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(6, 6)
features = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8)).eval()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(4):
    x = torch.randn(5, 6)
    optimizer.zero_grad()
    (features(model(x)) - features(x).detach()).square().mean().backward()
    optimizer.step()
