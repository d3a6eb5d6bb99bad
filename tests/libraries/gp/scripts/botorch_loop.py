# from: https://botorch.org/docs/introduction
# says: all \d+ parameters got a gradient
import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll_torch
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood

torch.manual_seed(0)
train_X = torch.rand(6, 2, dtype=torch.double)
Y = 1 - (train_X - 0.5).norm(dim=-1, keepdim=True)
gp = SingleTaskGP(train_X=train_X, train_Y=Y)
mll = ExactMarginalLogLikelihood(gp.likelihood, gp)
fit_gpytorch_mll_torch(mll, step_limit=10)
bounds = torch.stack([torch.zeros(2), torch.ones(2)]).to(torch.double)
candidate, value = optimize_acqf(
    LogExpectedImprovement(model=gp, best_f=Y.max()), bounds=bounds, q=1, num_restarts=2, raw_samples=8
)
print([number.hex() for number in candidate.flatten().tolist()], value.item().hex())
