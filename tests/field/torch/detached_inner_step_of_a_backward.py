# from: own
# exit: 1
# says: 2 of 2 parameters got no gradient
import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
net = nn.Linear(3, 1)
meta = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(2):
    x = torch.randn(16, 3)
    params = dict(net.named_parameters())
    inner = functional_call(net, params, (x,)).square().mean()
    slopes = torch.autograd.grad(inner, list(params.values()))
    fast = {
        name: (p - 0.1 * slope).detach().requires_grad_()  # <- here
        for (name, p), slope in zip(params.items(), slopes, strict=True)
    }
    loss = (functional_call(net, fast, (x,)) - x.sum(1, keepdim=True)).square().mean()
    meta.zero_grad()
    loss.backward()
    meta.step()
