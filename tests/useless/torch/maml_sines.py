# from: https://github.com/cbfinn/maml
# truth: healthy: the inner step makes new weights, the outer loss goes back through it to the first ones
# kind: healthy
import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 20), nn.ReLU(), nn.Linear(20, 1))
meta = torch.optim.Adam(net.parameters(), lr=1e-3)
for iteration in range(3):
    meta.zero_grad()
    outer = 0.0
    for _ in range(3):
        size, phase = torch.rand(2) * 3
        x = torch.rand(10, 1) * 6 - 3
        y = size * torch.sin(x + phase)
        weights = dict(net.named_parameters())
        inner = nn.functional.mse_loss(functional_call(net, weights, x[:5]), y[:5])
        slopes = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
        adapted = {name: w - 0.01 * g for (name, w), g in zip(weights.items(), slopes)}
        outer = outer + nn.functional.mse_loss(functional_call(net, adapted, x[5:]), y[5:])
    (outer / 3).backward()
    meta.step()
    print(iteration, outer.item() / 3)
