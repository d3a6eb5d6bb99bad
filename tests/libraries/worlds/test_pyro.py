"""Pyro: probabilistic programs; parameters live in a store, and losses are differentiated inside ``step``."""

from pathlib import Path

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoNormal
from pyro.nn import PyroModule, PyroSample
from torch import nn

FRAMEWORK, LIBRARIES = "PyTorch", ("pyro-ppl",)


# https://pyro.ai/examples/svi_part_i.html: a coin
def coin(data):
    fairness = pyro.sample("fairness", dist.Beta(torch.tensor(10.0), torch.tensor(10.0)))
    with pyro.plate("data", len(data)):
        pyro.sample("obs", dist.Bernoulli(fairness), obs=data)


def coin_guide(data):
    alpha = pyro.param("alpha", torch.tensor(15.0), constraint=dist.constraints.positive)
    beta = pyro.param("beta", torch.tensor(15.0), constraint=dist.constraints.positive)
    pyro.sample("fairness", dist.Beta(alpha, beta))


def svi(around, steps=3):
    pyro.clear_param_store()
    engine = SVI(coin, coin_guide, pyro.optim.Adam({"lr": 0.005}), loss=Trace_ELBO())
    data = torch.tensor([1.0, 1.0, 1.0, 0.0, 0.0])
    losses = []
    with around() as seen:
        for _ in range(steps):
            losses.append(engine.step(data))
    return seen, losses, pyro.param("alpha"), pyro.param("beta")


def test_coin(ask):
    rec = ask.block(svi)
    ask.names(rec, "/coin#0:fairness", "/coin_guide#0:alpha", "/coin_guide#2:beta")
    ask.clean(rec)
    ask.works("`SVI.step` in a block: the same numbers, samples and parameters by name")


# an ELBO by hand: with a point guide, the gradient is that of the log joint
def log_joint(rate):
    normal = dist.Normal(0.0, 1.0)
    prior = normal.log_prob(rate)
    likelihood = dist.Poisson(rate.exp()).log_prob(torch.tensor([2.0, 3.0])).sum()
    total = prior + likelihood
    return total


def test_log_joint(ask):
    rec = ask.function(log_joint, lambda: (torch.tensor(0.4, requires_grad=True),))
    rate = torch.tensor(0.4)
    ask.gradients(rec, {"rate": -rate + 5 - 2 * rate.exp(), "prior": 1.0, "likelihood": 1.0, "total": 1.0})
    ask.names(rec, "rate", "prior", "likelihood", "total")
    ask.clean(rec)
    ask.works("log densities by hand")


# https://pyro.ai/examples/bayesian_regression.html
class Regression(PyroModule):
    def __init__(self):
        super().__init__()
        self.linear = PyroModule[nn.Linear](2, 1)
        self.linear.weight = PyroSample(dist.Normal(0.0, 1.0).expand([1, 2]).to_event(2))

    def forward(self, x, y=None):
        sigma = pyro.sample("sigma", dist.Uniform(0.0, 10.0))
        mean = self.linear(x).squeeze(-1)
        with pyro.plate("data", x.shape[0]):
            pyro.sample("obs", dist.Normal(mean, sigma), obs=y)
        return mean


def elbo(around, steps=20, select=None):
    pyro.clear_param_store()
    model = Regression()
    guide = AutoNormal(model)
    x = torch.randn(12, 2)
    y = x.sum(1) + 0.1 * torch.randn(12)
    loss_function = Trace_ELBO()(model, guide)
    loss_function(x, y)
    optimizer = torch.optim.Adam(loss_function.parameters(), lr=0.02)
    with around(loss_function, select, optimizer=optimizer) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = loss_function(x, y)
            loss.backward()
            optimizer.step()
    return seen, loss, {name: p.grad for name, p in loss_function.named_parameters()}


def test_regression(ask):
    rec = ask.block(elbo, 1)
    _, grads = ask.bare(elbo, 1)
    ask.gradients(rec, grads)
    ask.names(rec, "model.linear", "model.linear.bias", *grads)
    ask.clean(rec)
    last = ask.watched(elbo)
    ask.rows(last, *grads)
    ask.works("a `PyroModule` under `Trace_ELBO`: every parameter of model and guide, and `bp.watch`")


# https://pyro.ai/examples/vae.html: an encoder and a decoder in the store
class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(4, 4), nn.Linear(2, 4)

    def model(self, x):
        pyro.module("decoder", self.decoder)
        with pyro.plate("data", x.shape[0]):
            z = pyro.sample("latent", dist.Normal(torch.zeros(2), 1.0).expand([x.shape[0], 2]).to_event(1))
            image = torch.sigmoid(self.decoder(z))
            pyro.sample("obs", dist.Bernoulli(image, validate_args=False).to_event(1), obs=x)

    def guide(self, x):
        pyro.module("encoder", self.encoder)
        with pyro.plate("data", x.shape[0]):
            location, scale = self.encoder(x).chunk(2, -1)
            pyro.sample("latent", dist.Normal(location, scale.exp()).to_event(1))


class VAECut(VAE):
    def guide(self, x):
        pyro.module("encoder", self.encoder)
        with pyro.plate("data", x.shape[0]):
            location, scale = self.encoder(x).chunk(2, -1)
            location = torch.as_tensor(location.detach().numpy())  # <- cut
            scale = torch.as_tensor(scale.detach().numpy())  # <- cut
            pyro.sample("latent", dist.Normal(location, scale.exp()).to_event(1))


class VAENan(VAE):
    def guide(self, x):
        pyro.module("encoder", self.encoder)
        with pyro.plate("data", x.shape[0]):
            location, scale = self.encoder(x).chunk(2, -1)
            deviation = (scale - scale).sqrt()  # <- nan
            pyro.sample("latent", dist.Normal(location, deviation + 1).to_event(1))


def vae(around, kind=VAE):
    pyro.clear_param_store()
    model = kind()
    x = torch.rand(3, 4).round()
    with around() as seen:
        loss = Trace_ELBO().differentiable_loss(model.model, model.guide, x)
        loss.backward()
    return seen, loss, model.decoder.weight.grad, [] if kind is VAECut else model.encoder.weight.grad


def test_vae(ask):
    rec = ask.block(vae)
    ask.names(rec, "loss", "/model:image", "/guide:location", "x")
    ask.gradients(rec, {"loss": 1.0})
    ask.statuses(rec, {"x": "frozen"})
    ask.clean(rec)
    ask.works("models and guides that are methods: their local variables, in a block")


def test_planted(ask):
    rec = ask.block(vae, VAECut)
    ask.cut(rec, VAECut.guide)
    rec = ask.block(vae, VAENan, nonfinite=True)
    ask.nan(rec, VAENan.guide)


def test_script(ask):
    ask.script(Path(__file__).parent / "scripts" / "pyro_coin.py")
