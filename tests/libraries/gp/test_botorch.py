"""BoTorch: Bayesian optimization, which climbs acquisition functions by their gradients."""

import math
from pathlib import Path

import torch
from botorch.acquisition import ExpectedImprovement, UpperConfidenceBound, qExpectedImprovement
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.sampling import SobolQMCNormalSampler
from gpytorch.mlls import ExactMarginalLogLikelihood
from in_torch import ask_paths

from several_paths import CASES

FRAMEWORK, LIBRARIES = "PyTorch", ("botorch",)


def fitted():
    torch.manual_seed(3)
    x = torch.rand(8, 2, dtype=torch.double)
    y = (x * 5).sin().sum(1, keepdim=True)
    return SingleTaskGP(x, y).eval()


def posterior(model, x):
    """Mean and variance at one point, and their derivatives, by the library itself."""
    x = x.clone().requires_grad_()
    found = model.posterior(x)
    mean, variance = found.mean.squeeze(), found.variance.squeeze()
    d_mean = torch.autograd.grad(mean, x, retain_graph=True)[0]
    d_variance = torch.autograd.grad(variance, x)[0]
    return mean.detach(), variance.detach(), d_mean, d_variance


POINT = torch.tensor([[0.3, 0.6]], dtype=torch.double)


# https://botorch.org/docs/acquisition: the bound is mean + sqrt(beta) sigma
def bound(x):
    model = fitted()
    acquisition = UpperConfidenceBound(model, beta=0.25)
    score = acquisition(x)
    return score.sum()


def test_upper_confidence_bound(ask):
    mean, variance, d_mean, d_variance = posterior(fitted(), POINT)
    rec = ask.function(bound, lambda: (POINT.clone().requires_grad_(),))
    ask.gradients(rec, {"x": d_mean + 0.5 * d_variance / (2 * variance.sqrt()), "score": [1.0]})
    ask.values(rec, {"score": (mean + 0.5 * variance.sqrt()).reshape(1)})
    ask.names(rec, "x", "score")
    ask.clean(rec)
    ask.works("acquisition functions: the gradient of the point that is climbed")


# https://botorch.org/docs/acquisition: analytic expected improvement
def improvement(x):
    acquisition = ExpectedImprovement(fitted(), best_f=0.5)
    score = acquisition(x)
    return score.sum()


def test_expected_improvement(ask):
    mean, variance, d_mean, d_variance = posterior(fitted(), POINT)
    sigma = variance.sqrt()
    d_sigma = d_variance / (2 * sigma)
    u = (mean - 0.5) / sigma
    cdf = 0.5 * (1 + torch.erf(u / math.sqrt(2)))
    pdf = torch.exp(-u * u / 2) / math.sqrt(2 * math.pi)
    rec = ask.function(improvement, lambda: (POINT.clone().requires_grad_(),))
    ask.gradients(rec, {"x": cdf * d_mean + pdf * d_sigma})
    ask.values(rec, {"score": (sigma * (pdf + u * cdf)).reshape(1)})
    ask.clean(rec)


# https://botorch.org/docs/batching: candidates are improved by a plain optimizer
def climbed(around):
    model = fitted()
    candidates = torch.rand(3, 2, 2, dtype=torch.double).requires_grad_()
    optimizer = torch.optim.Adam([candidates], lr=0.05)
    acquisition = qExpectedImprovement(model, best_f=0.5, sampler=SobolQMCNormalSampler(torch.Size([16]), seed=1))
    for _ in range(3):
        optimizer.zero_grad()
        with around() as seen:
            values = acquisition(candidates)
            loss = -values.sum()
            loss.backward()
        optimizer.step()
    return seen, candidates.grad, candidates


def test_batches_of_candidates(ask):
    rec = ask.block(climbed)
    ask.names(rec, "candidates", "values", "loss")
    gradient, _ = ask.bare(climbed)
    ask.gradients(rec, {"values": -torch.ones(3), "loss": 1.0, "candidates": gradient})
    ask.clean(rec)
    ask.works("`qExpectedImprovement` with a sampler, in a block around a step of the candidates")


# https://botorch.org/docs/models: the hyperparameters, by a loop of one's own
def training(around):
    torch.manual_seed(3)
    x = torch.rand(8, 2, dtype=torch.double)
    y = (x * 5).sin().sum(1, keepdim=True)
    model = SingleTaskGP(x, y)
    mll = ExactMarginalLogLikelihood(model.likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    mll.train()
    with around(model, optimizer=optimizer) as seen:
        for _ in range(20):
            optimizer.zero_grad()
            output = model(*model.train_inputs)
            loss = -mll(output, model.train_targets)
            loss.backward()
            optimizer.step()
    return seen, loss, list(model.parameters())


def test_training_is_watched(ask):
    last = ask.watched(training)
    ask.rows(last, "covar_module.raw_lengthscale", "likelihood.noise_covar.raw_noise", "mean_module.raw_constant")
    ask.works("`bp.watch` over the fit of a `SingleTaskGP`")


# modules at several places
def transformed():
    """The fit of a model that scales what goes in and what comes out."""
    x = torch.rand(8, 2, dtype=torch.double)
    y = x.sum(1, keepdim=True).sin()
    model = SingleTaskGP(x, y, input_transform=Normalize(2), outcome_transform=Standardize(1))
    mll = ExactMarginalLogLikelihood(model.likelihood, model)
    mll.train()
    step = lambda: (-mll(model(*model.train_inputs), model.train_targets)).backward()
    noise, kernel = "likelihood.noise_covar.raw_noise", "model.covar_module.raw_lengthscale"
    return mll, step, (noise, kernel, "model.mean_module", "model.mean_module.raw_constant")


def acquisition():
    """What is climbed holds the model."""
    acquired = qExpectedImprovement(fitted(), best_f=0.5, sampler=SobolQMCNormalSampler(torch.Size([4]), seed=1))
    point = POINT.clone().requires_grad_()
    names = "model.mean_module", "model.covar_module.raw_lengthscale", "model.likelihood.noise_covar.raw_noise"
    return acquired, lambda: acquired(point).sum().backward(), names


def two_outcomes():
    """A list of models, which holds their likelihoods once more."""
    x = torch.rand(8, 2, dtype=torch.double)
    model = ModelListGP(SingleTaskGP(x, x[:, :1].sin()), SingleTaskGP(x, x[:, 1:].cos())).eval()
    step = lambda: sum(one.mean.sum() for one in [model.posterior(POINT)]).backward()
    noise = "models.0.likelihood.noise_covar.raw_noise"
    return model, step, (noise, "models.0.mean_module", "models.1.mean_module", "models.1.covar_module.raw_lengthscale")


def test_several_paths(ask):
    for made in (CASES["botorch"], transformed, acquisition, two_outcomes):
        ask_paths(ask, *made())
    ask.works("models within likelihoods, lists and acquisition functions: the path to be guessed is printed")


# planted
def chosen_by_number(x):
    found = fitted().posterior(x)
    mean = found.mean.squeeze()
    sigma = found.variance.squeeze().sqrt()
    weight = float(sigma)  # <- cut
    return mean.detach() * weight + x.sum() * 0  # <- cut


def log_improvement(x, best):
    mean = fitted().posterior(x).mean.squeeze()
    gain = (mean - best).clamp(min=0)
    score = torch.log(gain)  # <- nan
    return score


def test_planted(ask):
    inputs = lambda: (POINT.clone().requires_grad_(), torch.tensor(9.0, dtype=torch.double))
    rec = ask.function(log_improvement, inputs, nonfinite=True)
    ask.nan(rec, log_improvement)
    rec = ask.function(chosen_by_number, lambda: (POINT.clone().requires_grad_(),))
    ask.statuses(rec, {"mean": "not_connected", "sigma": "not_connected", "weight": "not_tensor"})
    ask.gradients(rec, {"x": torch.zeros(1, 2)})


def test_script(ask):
    ask.script(Path(__file__).parent / "scripts" / "botorch_loop.py")
