# from: https://github.com/cornellius-gp/gpytorch/issues/416
# exit: 1
# says: y\.grad
# says: leaf|retain_grad
import gpytorch
import torch


class Gp(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.RBFKernel()

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


torch.manual_seed(0)
train_x = torch.linspace(0, 1, 6)[:, None]
likelihood = gpytorch.likelihoods.GaussianLikelihood().eval()
model = Gp(train_x, train_x[:, 0].sin(), likelihood).eval()
test_x = torch.ones((1, 1), requires_grad=True)
prediction = likelihood(model(test_x))
y = prediction.mean.sum()
y.backward()
print("gradient:", y.grad)
