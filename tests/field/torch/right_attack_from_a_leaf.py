# from: own
# never: copies the values|cuts .* off
# never: got no gradient
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)).requires_grad_(False)
image = torch.randn(2, 3)
moved = image.clone().requires_grad_()
for step in range(3):
    error = net(moved).square().mean()
    (slope,) = torch.autograd.grad(error, moved)
    raised = moved + 0.1 * slope.sign()
    moved = torch.clamp(raised, image - 0.2, image + 0.2).detach().requires_grad_()
print(float(error))
