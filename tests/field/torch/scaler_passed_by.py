# from: own
# exit: 1
# says: SGD .*steps with gradients .*65536
# says: next: scaler\.step\(optimizer\)
# The loss is scaled, and the optimizer steps by itself: with gradients that are 65536 times as large.
import torch
from torch import nn

torch.manual_seed(0)
layer, scaler = nn.Linear(4, 1), torch.amp.GradScaler("cpu")
optimizer = torch.optim.SGD(layer.parameters(), lr=1e-6)
for step in range(5):
    loss = layer(torch.randn(32, 4)).square().mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    optimizer.step()  # <- here
