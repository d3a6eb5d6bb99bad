# from: https://github.com/locuslab/deq/issues/11
# never: got no gradient|exactly 0|useless|changes no|changes next to nothing|is dropped|cuts|cancel|not used|no optimizer
# An implicit layer: the solver records nothing, one more call of the function does, and a hook solves backward.
import torch
from torch import nn


def solve(f, z, steps=40):
    for _ in range(steps):
        z = f(z)
    return z


class Equilibrium(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner, self.given = nn.Linear(width, width, bias=False), nn.Linear(width, width)
        with torch.no_grad():
            self.inner.weight.mul_(0.3)

    def f(self, z, x):
        return torch.tanh(self.inner(z) + self.given(x))

    def forward(self, x):
        with torch.no_grad():
            z = solve(lambda z: self.f(z, x), torch.zeros_like(x))
        z = self.f(z, x)
        if z.requires_grad:
            start = z.clone().detach().requires_grad_()
            once = self.f(start, x)
            z.register_hook(lambda g: solve(lambda y: torch.autograd.grad(once, start, y, retain_graph=True)[0] + g, g))
        return z


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), Equilibrium(8), nn.Linear(8, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(4):
    x, y = torch.randn(16, 4), torch.randint(0, 2, (16,))
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
