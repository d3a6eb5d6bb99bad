# from: https://github.com/cornellius-gp/gpytorch/issues/689
# never: got no gradient
# never: not seen to run
import gpytorch
import torch


class Gp(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


torch.manual_seed(0)
x = torch.linspace(0, 1, 12)
y = torch.sin(6 * x) + 0.1 * torch.randn(12)
likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = Gp(x, y, likelihood)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
model.train(), likelihood.train()
for step in range(3):
    optimizer.zero_grad()
    loss = -mll(model(x), y)
    loss.backward()
    optimizer.step()
print({name: float(p.grad.abs().sum()) for name, p in model.named_parameters()})
