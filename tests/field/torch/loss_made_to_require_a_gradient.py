# from: https://github.com/ronghuaiyang/arcface-pytorch/issues/56
# exit: 1
# never: all \d+ parameters got
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 4)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(3):
    x, y = torch.randn(8, 3), torch.randint(0, 4, (8,))
    predicted = model(x).argmax(-1)  # <- here
    loss = (predicted != y).float().mean()
    loss.requires_grad = True
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(model.weight.grad)
