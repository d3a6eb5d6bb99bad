# from: https://github.com/fabiodimarco/torch-levenberg-marquardt/issues/7
# exit: 3
# says: no_grad
# says: enable_grad
# The residual of an equation differentiates by its inputs, also where it is only evaluated.
import torch
from torch import nn


class Oscillator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, t):
        u = self.net(t)
        u_t = torch.autograd.grad(u, t, torch.ones_like(u), create_graph=True)[0]  # <- here
        u_tt = torch.autograd.grad(u_t, t, torch.ones_like(u), create_graph=True)[0]
        return u_tt + 4 * u


torch.manual_seed(0)
model = Oscillator()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
t = torch.linspace(0, 1, 32)[:, None].requires_grad_()
for step in range(3):
    optimizer.zero_grad()
    loss = model(t).square().mean() + (model.net(torch.zeros(1, 1)) - 1).square().mean()
    loss.backward()
    optimizer.step()
    with torch.no_grad():  # <- here
        print(step, model(t).abs().max())
