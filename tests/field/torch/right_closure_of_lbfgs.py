# from: https://github.com/ComputationalDomain/PINNs/issues/1
# never: got no gradient|exactly 0|useless|changes next to nothing|changes no|changes none|is dropped|cuts|cancel|unused|not used
# The closure is called several times a step.
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=5)
x = torch.linspace(-1, 1, 40)[:, None]


def closure():
    optimizer.zero_grad()
    loss = (net(x) - torch.sin(3 * x)).square().mean()
    loss.backward()
    return loss


for step in range(4):
    loss = optimizer.step(closure)
print(loss.item())
