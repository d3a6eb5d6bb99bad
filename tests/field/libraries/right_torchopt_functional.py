# from: https://github.com/metaopt/torchopt/pull/108
# never: \d of \d parameters got no gradient
# never: no parameter got
import torch
import torchopt
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
net = nn.Linear(3, 1)
params = {name: p.detach().clone().requires_grad_() for name, p in net.named_parameters()}
optimizer = torchopt.adam(lr=0.05)
state = optimizer.init(params)
for step in range(3):
    x = torch.randn(16, 3)
    loss = (functional_call(net, params, (x,)) - x.sum(1, keepdim=True)).square().mean()
    slopes = torch.autograd.grad(loss, list(params.values()))
    updates, state = optimizer.update(dict(zip(params, slopes, strict=True)), state, inplace=False)
    moved = torchopt.apply_updates(params, updates, inplace=False)
    params = {name: value.detach().requires_grad_() for name, value in moved.items()}
    print(step, loss.item())
