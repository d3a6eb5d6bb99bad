# from: own
# never: copies the values|cuts .* off
# never: got no gradient
import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
net = nn.Linear(3, 1)
params = {name: p.detach().clone().requires_grad_() for name, p in net.named_parameters()}
for step in range(3):
    x = torch.randn(16, 3)
    loss = (functional_call(net, params, (x,)) - x.sum(1, keepdim=True)).square().mean()
    slopes = torch.autograd.grad(loss, list(params.values()))
    moved = {name: p - 0.1 * g for (name, p), g in zip(params.items(), slopes, strict=True)}
    params = {name: value.detach().requires_grad_() for name, value in moved.items()}
    print(step, loss.item())
