# from: https://github.com/pytorch/examples/issues/277
# exit: 1
# says: backward
# says: closure|optimizer\.step
# The closure computes the loss and nothing else: each step of LBFGS finds no gradient.
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.LBFGS(net.parameters(), lr=0.5)
x = torch.linspace(-1, 1, 40)[:, None]


def closure():
    optimizer.zero_grad()
    return (net(x) - torch.sin(3 * x)).square().mean()  # <- here


for step in range(4):
    loss = optimizer.step(closure)
    print(step, loss.item())
