# from: own
# ask: health PROGRAM
# exit: 1
# never: no problems found
import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Linear(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    h = torch.from_numpy(body(torch.randn(16, 4)).detach().numpy())
    loss = (head(h) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(body.weight.grad)
