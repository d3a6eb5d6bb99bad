# from: own
# ask: python
import gpytorch
import torch

import backprobe as bp


class Gp(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.LinearMean(1)
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        mean = self.mean_module(x)
        return gpytorch.distributions.MultivariateNormal(mean, self.covar_module(x))


torch.manual_seed(0)
x, y = torch.linspace(0, 1, 8)[:, None], torch.linspace(0, 1, 8).sin()
likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = Gp(x, y, likelihood).train()
mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
with bp.probe(model, ["**"]) as rec:
    loss = -mll(model(x), y)
    loss.backward()
wrong = {name: str(e.status) for name, e in rec.items() if str(e.status) == "not_executed"}
assert not wrong, wrong
assert "not seen to run" not in str(bp.explain(rec)), str(bp.explain(rec))
assert torch.equal(rec["covar_module.raw_outputscale"].grad, model.covar_module.raw_outputscale.grad)
