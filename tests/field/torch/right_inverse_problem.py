# from: own
# never: got no gradient|exactly 0|useless|changes no|changes next to nothing|is dropped|cuts|cancel|not used|no optimizer
# The rate of a diffusion is found from data; slopes are taken by torch.func, first by Adam and then by L-BFGS.
import torch
from torch import nn
from torch.func import functional_call, hessian, jacrev, vmap

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
rate = nn.Parameter(torch.tensor(0.5))


def u(params, point):
    return functional_call(net, params, (point,)).squeeze(-1)


def residual(points):
    params = dict(net.named_parameters())
    slopes = vmap(jacrev(u, argnums=1), (None, 0))(params, points)
    bends = vmap(hessian(u, argnums=1), (None, 0))(params, points)
    return slopes[:, 1] - rate * bends[:, 0, 0]


def loss_of(points, seen, values):
    return residual(points).square().mean() + (net(seen).squeeze(-1) - values).square().mean()


seen = torch.rand(40, 2)
values = (-seen[:, 1]).exp() * (3 * seen[:, 0]).sin()
adam = torch.optim.Adam([*net.parameters(), rate], lr=1e-3)
for step in range(3):
    loss = loss_of(torch.rand(64, 2), seen, values)
    adam.zero_grad()
    loss.backward()
    adam.step()
lbfgs = torch.optim.LBFGS([*net.parameters(), rate], max_iter=3)
points = torch.rand(64, 2)


def closure():
    lbfgs.zero_grad()
    loss = loss_of(points, seen, values)
    loss.backward()
    return loss


lbfgs.step(closure)
print(rate.item())
