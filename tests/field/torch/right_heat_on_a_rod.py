# from: https://github.com/lululxvi/deepxde/issues/80
# never: got no gradient|exactly 0|useless|changes next to nothing|changes no|changes none|is dropped|cuts|cancel|unused|not used
# Second slopes by torch.func, with the ends in the loss.
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)


def u(x, parameters):
    return functional_call(net, parameters, (x.reshape(1, 1),)).squeeze()


bend = vmap(grad(grad(u)), in_dims=(0, None))
for step in range(4):
    parameters = dict(net.named_parameters())
    x = torch.rand(24)
    inside = (bend(x, parameters) + torch.sin(x)).square().mean()
    ends = net(torch.tensor([[0.0], [1.0]])).square().sum()
    loss = inside + ends
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
