# from: https://github.com/cornellius-gp/gpytorch/pull/680
# ask: explain
# kind: same_numbers
# name: amortizer.weight
# missing: amortizer.weight.grad
# moves: amortizer.weight.data += 0.5
"""A network proposes the lengthscale of a kernel, and `initialize` copies the number into the kernel's parameter."""

import gpytorch
import torch
from torch import nn


class Model(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean = gpytorch.means.ConstantMean()
        self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


torch.manual_seed(0)
x = torch.linspace(0, 1, 12)
y = torch.sin(6 * x) + 0.1 * torch.randn(12)
likelihood = gpytorch.likelihoods.GaussianLikelihood()
model, amortizer = Model(x, y, likelihood), nn.Linear(2, 1)
model.kernel.base_kernel.raw_lengthscale.requires_grad_(False)
summary = torch.stack([y.mean(), y.std()])
evidence = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
learned = [each for each in model.parameters() if each.requires_grad]
optimizer = torch.optim.Adam([*learned, *amortizer.parameters()], lr=0.05)
for _ in range(3):
    scale = nn.functional.softplus(amortizer(summary))
    model.kernel.base_kernel.initialize(lengthscale=scale)  # <- here
    loss = -evidence(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
