# from: own
# exit: 0
# says: all 2 parameters got a gradient
# never: steps with gradients
import torch
from torch import nn

torch.manual_seed(0)
layer, scaler = nn.Linear(4, 1), torch.amp.GradScaler("cpu")
optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
for parameter in layer.parameters():
    parameter.register_hook(lambda gradient: gradient / scaler.get_scale())
for step in range(5):
    loss = layer(torch.randn(32, 4)).square().mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    optimizer.step()
