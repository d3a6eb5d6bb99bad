"""What keeps the graphs of earlier steps alive? The variable, its line, and what to write there."""

import torch
from torch import nn

import backprobe as bp

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
history = []

with bp.memory(model) as report:
    for _ in range(5):
        outputs = model(torch.randn(32, 64))
        loss = outputs.square().mean()
        history.append(outputs)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

print(report)
