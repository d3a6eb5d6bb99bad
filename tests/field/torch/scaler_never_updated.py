# from: own
# exit: 3
# says: scaler\.update\(\)
# says: next: .*scaler\.update\(\)
import torch
from torch import nn

torch.manual_seed(0)
layer, scaler = nn.Linear(4, 1), torch.amp.GradScaler("cpu")
optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
for step in range(5):
    loss = layer(torch.randn(32, 4)).square().mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)  # <- here
