# from: https://github.com/metaopt/torchopt
# ask: explain
# exit: 0
# never: nothing that was recorded leads
# The same with `autograd.grad`, which leaves no `.grad`.
import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
net, x = nn.Linear(2, 1), torch.randn(6, 2)
fast = {name: value.detach().requires_grad_() for name, value in net.named_parameters()}
for _ in range(3):
    loss = functional_call(net, fast, (x,)).square().mean()
    grads = torch.autograd.grad(loss, list(fast.values()))
    fast = {name: (value - 0.1 * grad).detach().requires_grad_() for (name, value), grad in zip(fast.items(), grads)}
