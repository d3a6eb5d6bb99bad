# from: own
# never: \d of \d parameters got no gradient
# never: no parameter got
import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
skeleton = nn.Linear(3, 1)
params = {name: p.detach().clone().requires_grad_() for name, p in skeleton.named_parameters()}
target = torch.tensor([[1.0], [-2.0], [0.5]])
for step in range(4):
    x = torch.randn(16, 3)
    loss = (functional_call(skeleton, params, (x,)) - x @ target).square().mean()
    loss.backward()
    with torch.no_grad():
        for value in params.values():
            value -= 0.1 * value.grad
            value.grad = None
    print(step, loss.item())
