# from: own
# ask: python
import gpytorch
import torch

import backprobe as bp


class Process(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


x = torch.linspace(0, 1, 6)
likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = Process(x, x.sin(), likelihood)
model.train()
likelihood.train()
mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
with bp.probe(model) as rec:
    loss = -mll(model(x), x.sin())
    loss.backward()
reasons = [str(entry.reason) for entry in rec.values()]
assert not any("not seen to run" in reason for reason in reasons), reasons
