"""GPyTorch: Gaussian processes whose hyperparameters are trained, through lazy linear operators."""

import math
from pathlib import Path

import gpytorch
import torch
from in_torch import ask_paths
from torch import nn
from torch.nn.functional import softplus

import backprobe as bp
from several_paths import CASES

FRAMEWORK, LIBRARIES = "PyTorch", ("gpytorch", "linear_operator")
LENGTHSCALE, SCALE = "covar_module.base_kernel.raw_lengthscale", "covar_module.raw_outputscale"
NOISE, MEAN = "likelihood.noise_covar.raw_noise", "mean_module.raw_constant"


# https://docs.gpytorch.ai/en/stable/examples/01_Exact_GPs/Simple_GP_Regression.html
class Exact(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        mean_x = self.mean_module(x)
        covar_x = self.covar_module(x)
        return gpytorch.distributions.MultivariateNormal(mean_x, covar_x)


def data():
    x = torch.linspace(0, 1, 12, dtype=torch.double)
    return x, torch.sin(x * 2 * math.pi) + 0.1 * torch.cos(40 * x)


def exact(x, y):
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    return Exact(x, y, likelihood).double(), likelihood


def log_marginal(x, y, lengthscale, scale, noise, mean):
    """What the library computes per point, from dense matrices, of its raw hyperparameters."""
    square = (x[:, None] - x).square() / softplus(lengthscale).square()
    cov = softplus(scale) * torch.exp(-square / 2) + (softplus(noise) + 1e-4) * torch.eye(len(x), dtype=x.dtype)
    left = y - mean
    solved = torch.linalg.solve(cov, left)
    return -0.5 * (left @ solved + torch.logdet(cov) + len(x) * math.log(2 * math.pi)) / len(x)


def derivatives(x, y):
    raw = [torch.zeros((), dtype=torch.double, requires_grad=True) for _ in range(4)]
    return [-each for each in torch.autograd.grad(log_marginal(x, y, *raw), raw)]


def one_step(around):
    x, y = data()
    model, likelihood = exact(x, y)
    model.train()
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    with around(model) as seen:
        output = model(x)
        loss = -mll(output, y)
        loss.backward()
    return seen, loss, [p.grad for p in model.parameters()]


def test_exact_regression(ask):
    rec = ask.block(one_step)
    lengthscale, scale, noise, mean = derivatives(*data())
    right = {LENGTHSCALE: lengthscale.reshape(1, 1), SCALE: scale, NOISE: noise.reshape(1), MEAN: mean}
    ask.gradients(rec, right)
    ask.names(rec, "mean_module", LENGTHSCALE, SCALE, NOISE, MEAN)
    ask.clean(rec)
    ask.works("regression with an exact GP: every hyperparameter")


def one_step_locals(around):
    x, y = data()
    model, likelihood = exact(x, y)
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    with around(model, "**:*") as seen:
        loss = -mll(model(x), y)
        loss.backward()
    return seen, loss


def test_locals_of_the_forward(ask):
    rec = ask.block(one_step_locals)
    ask.names(rec, "mean_x", "x")
    x, y = data()
    zero = torch.zeros((), dtype=torch.double)
    mean = torch.zeros(12, dtype=torch.double, requires_grad=True)
    (right,) = torch.autograd.grad(-log_marginal(x, y, zero, zero, zero, mean), mean)
    ask.gradients(rec, {"mean_x": right})
    ask.statuses(rec, {"covar_module#0": ("not_tensor", "LazyEvaluatedKernelTensor")})
    ask.refuses(
        "lazy covariance matrices are no tensors: `covar_module` is `not_tensor`, what is computed of them goes on"
    )


def training(around):
    x, y = data()
    model, likelihood = exact(x, y)
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    with around(model, optimizer=optimizer) as seen:
        for _ in range(20):
            optimizer.zero_grad()
            loss = -mll(model(x), y)
            loss.backward()
            optimizer.step()
    return seen, loss, list(model.parameters())


def test_training_is_watched(ask):
    last = ask.watched(training)
    ask.rows(last, LENGTHSCALE, SCALE, NOISE, MEAN, "mean_module")
    ask.works("`bp.watch` over the training of an exact GP")


# https://docs.gpytorch.ai/en/stable/examples/06_PyTorch_NN_Integration_DKL/KISSGP_Deep_Kernel_Regression_CUDA.html
class DeepKernel(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
        self.features = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))

    def forward(self, x):
        projected = self.features(x)
        return gpytorch.distributions.MultivariateNormal(self.mean_module(projected), self.covar_module(projected))


class DeepKernelCut(DeepKernel):
    def forward(self, x):
        projected = self.features(x)
        projected = projected - projected.min(0)[0]
        scaled = 2 * (projected / projected.max(0)[0].item()) - 1
        scaled = scaled.data  # <- cut
        return gpytorch.distributions.MultivariateNormal(self.mean_module(scaled), self.covar_module(scaled))


def deep(around, kind=DeepKernel, select="**"):
    torch.manual_seed(1)
    x = torch.randn(10, 2, dtype=torch.double)
    y = x[:, 0].sin()
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = kind(x, y, likelihood).double()
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    with around(model, select) as seen:
        loss = -mll(model(x), y)
        loss.backward()
    return seen, loss, [p.grad for p in model.parameters()], model, x, y


def deep_without_model(around, *args):
    return deep(around, *args)[:3]


def test_deep_kernel(ask):
    rec = ask.block(deep_without_model)
    *_, model, x, y = ask.bare(deep)
    projected = model.features(x).detach().requires_grad_()
    zero = torch.zeros((), dtype=torch.double)
    square = (projected - projected.T).square() / softplus(zero).square()
    cov = softplus(zero) * torch.exp(-square / 2) + (softplus(zero) + 1e-4) * torch.eye(10, dtype=x.dtype)
    value = 0.5 * (y @ torch.linalg.solve(cov, y) + torch.logdet(cov)) / 10
    (right,) = torch.autograd.grad(value, projected)
    ask.gradients(rec, {"features": right, "features.2.bias": right.sum(0)})
    ask.names(rec, "features.0", "features.0.weight", "features.1")
    ask.clean(rec)
    ask.works("deep kernels: the features' gradients, layer by layer")


def test_a_cut_of_features(ask):
    rec = ask.block(deep_without_model, DeepKernelCut, ["**", "**:*"])
    ask.cut(rec, DeepKernelCut.forward)
    ask.statuses(rec, {"features.0.weight": "not_connected", "features": "not_connected"})


# https://docs.gpytorch.ai/en/stable/examples/04_Variational_and_Approximate_GPs/SVGP_Regression_CUDA.html
class Sparse(gpytorch.models.ApproximateGP):
    def __init__(self, inducing):
        distribution = gpytorch.variational.CholeskyVariationalDistribution(inducing.size(0))
        strategy = gpytorch.variational.VariationalStrategy(self, inducing, distribution, learn_inducing_locations=True)
        super().__init__(strategy)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def sparse(around, steps=20):
    x, y = data()
    x = x[:, None]
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    model = Sparse(x[::3].clone()).double()
    optimizer = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.05)
    mll = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=12)
    with around(model, optimizer=optimizer) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = -mll(model(x), y)
            loss.backward()
            optimizer.step()
    return seen, loss, [p.grad for p in model.parameters()]


def test_variational(ask):
    rec = ask.block(sparse, 1)
    inducing = "variational_strategy.inducing_points"
    mean = "variational_strategy._variational_distribution.variational_mean"
    _, grads = ask.bare(sparse, 1)
    names = [name for name, _ in Sparse(torch.zeros(4, 1)).named_parameters()]
    ask.gradients(rec, dict(zip(names, grads)))
    ask.names(rec, inducing, mean)
    last = ask.watched(sparse)
    ask.rows(last, inducing, mean)
    ask.works("variational GPs: inducing points and the variational distribution")


# https://docs.gpytorch.ai/en/stable/examples/08_Advanced_Usage/Simple_GP_Regression_Derivative_Information_1d.html
def slope(x):
    model, likelihood = exact(*data())
    model.eval(), likelihood.eval()
    mean = likelihood(model(x)).mean
    total = mean.sum()
    return total


def test_slope_of_a_prediction(ask):
    at = torch.tensor([0.21, 0.55], dtype=torch.double)
    x, y = data()
    rec = ask.function(slope, lambda: (at.clone().requires_grad_(),))
    zero = torch.tensor(0.0, dtype=torch.double)
    scale = softplus(zero)
    cov = scale * torch.exp(-((x[:, None] - x) / scale).square() / 2)
    weights = torch.linalg.solve(cov + (scale + 1e-4) * torch.eye(12, dtype=x.dtype), y)
    gap = (at[:, None] - x) / scale**2
    right = -(scale * torch.exp(-((at[:, None] - x) / scale).square() / 2) * gap) @ weights
    ask.gradients(rec, {"x": right, "mean": torch.ones(2), "total": 1.0})
    ask.clean(rec)
    ask.works("the slope of a prediction, by its input")


# modules at several places: a likelihood belongs to its model, and to what is maximised of it
def deep_likelihood():
    x = torch.randn(10, 2)
    model = DeepKernel(x, x[:, 0].sin(), gpytorch.likelihoods.GaussianLikelihood())
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    step = lambda: (-mll(model(x), x[:, 0].sin())).backward()
    noise, scale = "likelihood.noise_covar.raw_noise", "model.covar_module.raw_outputscale"
    return (
        mll,
        step,
        (noise, scale, "model.features", "model.features.0.weight", "model.features.2", "model.mean_module"),
    )


def sparse_likelihood():
    x, y = (each.float() for each in data())
    likelihood, model = gpytorch.likelihoods.GaussianLikelihood(), Sparse(x[::3, None].clone())
    mll = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=12)
    step = lambda: (-mll(model(x[:, None]), y)).backward()
    mean = "model.variational_strategy._variational_distribution.variational_mean"
    noise, inducing = "likelihood.noise_covar.raw_noise", "model.variational_strategy.inducing_points"
    return mll, step, (noise, inducing, mean, "model.covar_module.base_kernel.raw_lengthscale", "model.mean_module")


# https://docs.gpytorch.ai/en/stable/examples/03_Multitask_Exact_GPs/ModelList_GP_Regression.html
def several_models():
    models = [exact(*data())[0] for _ in range(2)]
    model = gpytorch.models.IndependentModelList(*models)
    likelihood = gpytorch.likelihoods.LikelihoodList(*[one.likelihood for one in models])
    mll = gpytorch.mlls.SumMarginalLogLikelihood(likelihood, model)
    step = lambda: (-mll(model(*model.train_inputs), model.train_targets)).backward()
    noise, kernel = "likelihood.likelihoods.1.noise_covar.raw_noise", "model.models.1.covar_module.raw_outputscale"
    return mll, step, (noise, kernel, "model.models.0.mean_module", "model.models.1.mean_module.raw_constant")


def one_kernel_twice():
    x, y = data()
    model, likelihood = exact(x, y)
    base = gpytorch.kernels.RBFKernel().double()
    model.covar_module = gpytorch.kernels.ScaleKernel(base).double() + gpytorch.kernels.ScaleKernel(base).double()
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    step = lambda: (-mll(model(x), y)).backward()
    kernels = "covar_module.kernels"
    names = f"{kernels}.0.base_kernel.raw_lengthscale", f"{kernels}.0.raw_outputscale", f"{kernels}.1.raw_outputscale"
    return model, step, (*names, "mean_module", "likelihood.noise_covar.raw_noise")


def test_several_paths(ask):
    for made in (CASES["gpytorch"], deep_likelihood, sparse_likelihood, several_models, one_kernel_twice):
        ask_paths(ask, *made())
    ask.works("likelihoods and kernels at several places of what is maximised: the path to be guessed is printed")


# planted
def distance_kernel(x, lengthscale):
    gap = x[:, None] - x
    distance = gap.square().sum(-1).sqrt()  # <- nan
    cov = torch.exp(-distance / lengthscale)
    normal = gpytorch.distributions.MultivariateNormal(torch.zeros(3), cov + torch.eye(3))
    return normal.log_prob(torch.ones(3))


def test_planted_nan(ask):
    inputs = torch.tensor([[0.0, 1.0], [1.0, 2.0], [4.0, 1.0]]), torch.tensor(0.7)
    rec = ask.function(distance_kernel, lambda: tuple(each.clone().requires_grad_() for each in inputs), nonfinite=True)
    ask.nan(rec, distance_kernel)
    distance = torch.cdist(inputs[0], inputs[0])
    lengthscale = inputs[1].clone().requires_grad_()
    cov = torch.exp(-distance / lengthscale) + torch.eye(3)
    value = torch.distributions.MultivariateNormal(torch.zeros(3), cov).log_prob(torch.ones(3))
    ask.gradients(rec, {"lengthscale": torch.autograd.grad(value, lengthscale)[0]})


def test_scripts(ask):
    ask.script(Path(__file__).parent / "scripts" / "gpytorch_regression.py")
    ask.script(Path(__file__).parent / "scripts" / "gpytorch_frozen_mean.py")
    ask.works("training scripts under `backprobe watch` and `backprobe explain`")
    ask.refuses("`mean_module.constant.item()` in a forward: the module is said not to be called, without that line")


def test_names_before_a_run(ask):
    model, _ = exact(*data())
    said = str(bp.names(model))
    for name in (LENGTHSCALE, SCALE, NOISE, MEAN):
        ask.that(name.rpartition(".")[2] in said, f"{name} is not in:\n{said}")
