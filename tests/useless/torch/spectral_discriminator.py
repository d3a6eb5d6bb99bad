# from: https://github.com/christiancosgrove/pytorch-spectral-normalization-gan
# truth: healthy: weights divided by their own norm still turn; the last bias cancels while no hinge is satisfied
# kind: healthy
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

torch.manual_seed(0)
d = nn.Sequential(spectral_norm(nn.Linear(2, 16)), nn.LeakyReLU(0.1), spectral_norm(nn.Linear(16, 1)))
g = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
opt_d = torch.optim.Adam(d.parameters(), lr=5e-3, betas=(0.0, 0.9))
opt_g = torch.optim.Adam(g.parameters(), lr=5e-3, betas=(0.0, 0.9))
for step in range(4):
    real = 2 + 0.2 * torch.randn(32, 2)
    loss_d = nn.ReLU()(1.0 - d(real)).mean() + nn.ReLU()(1.0 + d(g(torch.randn(32, 2)).detach())).mean()
    opt_d.zero_grad()
    loss_d.backward()
    opt_d.step()
    loss_g = -d(g(torch.randn(32, 2))).mean()
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
    print(step, loss_d.item(), loss_g.item())
