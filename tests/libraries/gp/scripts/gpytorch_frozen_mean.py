# from: https://docs.gpytorch.ai/en/stable/examples/00_Basic_Usage/Hyperparameters.html
# ask: explain
# exit: 1
# says: mean_module.raw_constant
# says: 1 of 4 parameters got no gradient
import gpytorch
import torch

torch.manual_seed(0)
train_x = torch.linspace(0, 1, 10)
train_y = torch.sin(6 * train_x)


class Model(gpytorch.models.ExactGP):
    def __init__(self, train_x, train_y, likelihood):
        super().__init__(train_x, train_y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=2.5))

    def forward(self, x):
        constant = self.mean_module.constant.item()
        mean_x = torch.full_like(x[:, 0], constant)
        return gpytorch.distributions.MultivariateNormal(mean_x, self.covar_module(x))


likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = Model(train_x, train_y, likelihood)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
for i in range(5):
    optimizer.zero_grad()
    loss = -mll(model(train_x), train_y)
    loss.backward()
    optimizer.step()
print(loss.item().hex())
