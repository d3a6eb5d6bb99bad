# from: https://github.com/davda54/sam/issues/45
# never: got no gradient|exactly 0|useless|changes next to nothing|changes no|changes none|is dropped|cuts|cancel|unused|not used
# How the loss would be a step ahead, and then one step by an optimizer.
import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(4):
    x = torch.randn(16, 4)
    y = x[:, :1] * x[:, 1:2]
    loss = (model(x) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    with torch.no_grad():
        tried = {name: p - 0.1 * p.grad for name, p in model.named_parameters()}
        ahead = (functional_call(model, tried, (x,)) - y).square().mean()
    print(step, loss.item(), ahead.item())
    optimizer.step()
