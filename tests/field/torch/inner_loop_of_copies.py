# from: https://github.com/metaopt/torchopt
# ask: explain
# exit: 0
# never: 1\. |no gradient
# An inner loop on leaves that are made of the parameters, and given to the module in their place.
import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
net, x = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)), torch.randn(6, 2)
fast = {name: value.detach().clone().requires_grad_() for name, value in net.named_parameters()}
for _ in range(3):
    loss = functional_call(net, fast, (x,)).square().mean()
    loss.backward()
    with torch.no_grad():
        for value in fast.values():
            value -= 0.1 * value.grad
            value.grad = None
