# from: own
# ask: explain
# says: all 2 parameters got a gradient
# never: accuracy
# never: norm
import torch
from torch import nn

torch.manual_seed(0)
layer = nn.Linear(3, 2)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    out = layer(torch.randn(5, 3))
    target = torch.randint(0, 2, (5,))
    loss = nn.functional.cross_entropy(out, target)
    with torch.no_grad():
        accuracy = (out.argmax(-1) == target).float().mean()
        norm = layer.weight.norm()
    loss.backward()
    optimizer.step()
