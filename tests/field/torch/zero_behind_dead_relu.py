# from: https://github.com/shidi1985/L2RPN/issues/6
# exit: 1
# says: exactly (0|zero)|zero
# never: all \d+ parameters got a gradient
import torch
from torch import nn

torch.manual_seed(0)
body = nn.Linear(6, 16)
nn.init.constant_(body.bias, -50.0)
actor = nn.Linear(16, 3, bias=False)
optimizer = torch.optim.Adam([*body.parameters(), *actor.parameters()], lr=1e-4)
for step in range(3):
    h = torch.relu(body(torch.randn(8, 6)))
    loss = nn.functional.cross_entropy(actor(h), torch.randint(0, 3, (8,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(float(body.weight.grad.abs().max()), float(actor.weight.grad.abs().max()))
