# from: https://github.com/pytorch/functorch/issues/25
# never: got no gradient
# never: not a leaf
import torch
from torch import nn
from torch.func import functional_call, grad

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
outer = torch.optim.Adam(net.parameters(), lr=1e-2)


def task_loss(params, x, y):
    return nn.functional.mse_loss(functional_call(net, params, (x,)), y)


def adapted(params, x, y, steps=2, alpha=0.1):
    for _ in range(steps):
        slopes = grad(task_loss)(params, x, y)
        params = {name: value - alpha * slopes[name] for name, value in params.items()}
    return params


for step in range(3):
    x = torch.rand(6, 1) * 4
    y = torch.sin(x + step)
    fast = adapted(dict(net.named_parameters()), x[:3], y[:3])
    loss = task_loss(fast, x[3:], y[3:])
    outer.zero_grad()
    loss.backward()
    outer.step()
print([float(p.grad.abs().sum()) for p in net.parameters()])
