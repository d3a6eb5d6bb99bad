"""torchsde: stochastic differential equations, with a Brownian path that is the same each time it is asked for."""

import torch
import torchsde
from torch import nn

FRAMEWORK, LIBRARIES = "PyTorch", ("torchsde",)


# https://github.com/google-research/torchsde: geometric Brownian motion; Euler's steps can be derived by hand
class Geometric(nn.Module):
    noise_type, sde_type = "diagonal", "ito"

    def __init__(self, mu=0.5, sigma=0.3):
        super().__init__()
        self.mu, self.sigma = nn.Parameter(torch.tensor(mu)), nn.Parameter(torch.tensor(sigma))

    def f(self, t, y):
        drift = self.mu * y
        return drift

    def g(self, t, y):
        return self.sigma * y


TIMES = torch.linspace(0, 1, 5)


def brownian():
    return torchsde.BrownianInterval(0.0, 1.0, size=(3, 1), entropy=7)


def motion(around):
    sde = Geometric()
    y0 = torch.full((3, 1), 1.5, requires_grad=True)
    with around() as seen:
        path = torchsde.sdeint(sde, y0, TIMES, method="euler", dt=0.25, bm=brownian())
        last = path[-1]
        loss = last.sum()
        loss.backward()
    return seen, loss, y0.grad, sde.mu.grad, sde.sigma.grad


def by_hand():
    bm = brownian()
    factors = [1 + 0.5 * 0.25 + 0.3 * bm(a, b) for a, b in zip(TIMES[:-1], TIMES[1:])]
    moves = [bm(a, b) for a, b in zip(TIMES[:-1], TIMES[1:])]
    product = torch.stack(factors).prod(0)
    d_mu = (1.5 * product * sum(0.25 / each for each in factors)).sum()
    d_sigma = (1.5 * product * sum(move / each for move, each in zip(moves, factors))).sum()
    return product, d_mu, d_sigma


def test_geometric_motion(ask):
    rec = ask.block(motion)
    product, d_mu, d_sigma = by_hand()
    ask.gradients(rec, {"y0": product, "last": torch.ones(3, 1), "loss": 1.0})
    ask.values(rec, {"last": 1.5 * product})
    ask.names(rec, "path", "y0", "/f#0:drift", "/g#3")
    ask.clean(rec)
    ask.select("`with bp.probe(sde)` for the parameters of an SDE; a plain block has what `f` and `g` compute")
    ask.works("`sdeint`: initial state, drift and diffusion, against Euler's steps by hand")


def watched(around, solve=torchsde.sdeint, steps=20):
    sde = Geometric()
    optimizer = torch.optim.Adam(sde.parameters(), lr=0.01)
    y0 = torch.full((3, 1), 1.5)
    with around(sde, optimizer=optimizer) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            path = solve(sde, y0, TIMES, method="milstein", dt=0.25, bm=brownian())
            loss = (path[-1] - 2).square().mean()
            loss.backward()
            optimizer.step()
    return seen, loss, sde.mu, sde.sigma, sde.mu.grad, sde.sigma.grad


def adjoint(sde, y0, times, **options):
    return torchsde.sdeint_adjoint(sde, y0, times, adjoint_method="milstein", **options)


def test_training(ask):
    for solve in (torchsde.sdeint, adjoint):
        rec = ask.block(watched, solve, 1)
        *_, d_mu, d_sigma = ask.bare(watched, solve, 1)
        ask.gradients(rec, {"mu": d_mu, "sigma": d_sigma})
        ask.clean(rec)
        last = ask.watched(watched, solve)
        ask.rows(last, "mu", "sigma")
    ask.works("`sdeint_adjoint`, and `bp.watch` over a training: parameters of an SDE that no module calls")


# https://github.com/google-research/torchsde/blob/master/examples/latent_sde_lorenz.py
class Latent(nn.Module):
    noise_type, sde_type = "diagonal", "ito"

    def __init__(self):
        super().__init__()
        self.posterior, self.prior = nn.Linear(2, 2), nn.Linear(2, 2)
        self.scale = nn.Parameter(torch.ones(2))

    def f(self, t, y):
        return self.posterior(y)

    def h(self, t, y):
        return self.prior(y)

    def g(self, t, y):
        return self.scale.exp() * torch.ones_like(y)


def latent(around, kind=Latent):
    sde = kind()
    with around(sde) as seen:
        path, log_ratio = torchsde.sdeint(sde, torch.zeros(4, 2), TIMES, method="euler", dt=0.25, logqp=True)
        loss = path.square().mean() + log_ratio.sum(0).mean()
        loss.backward()
    return seen, loss, [p.grad for p in sde.parameters()]


def test_latent_sde(ask):
    rec = ask.block(latent)
    _, grads = ask.bare(latent)
    ask.gradients(rec, dict(zip((name for name, _ in Latent().named_parameters()), grads)))
    ask.names(rec, "posterior#0", "prior#3", "posterior.weight")
    ask.clean(rec)
    ask.works("latent SDEs: posterior and prior at each step of the solver, by name")


# planted
def parameters_cut(around):
    sde = Geometric()
    y0 = torch.full((3, 1), 1.5)
    frozen = Geometric(sde.mu.item(), 0.1)
    frozen.mu = nn.Parameter(torch.tensor(0.1))
    drift = torch.tensor(0.2, requires_grad=True)
    with around() as seen:
        shift = drift * 2
        start = y0 + float(shift)  # <- cut
        path = torchsde.sdeint(frozen, start, TIMES, method="euler", dt=0.25, bm=brownian())
        loss = path[-1].sum()
        loss.backward()
    return seen, loss


def root_diffusion(y0):
    class Root(nn.Module):
        noise_type, sde_type = "diagonal", "ito"

        def f(self, t, y):
            return -y

        def g(self, t, y):
            return torch.sqrt(y)  # <- nan

    path = torchsde.sdeint(Root(), y0, TIMES, method="euler", dt=0.25, bm=brownian())
    return path[-1].sum()


def test_planted(ask):
    rec = ask.block(parameters_cut)
    ask.cut(rec, parameters_cut)
    ask.statuses(rec, {"drift": "not_connected", "shift": "not_connected"})
    rec = ask.function(root_diffusion, lambda: (torch.zeros(3, 1, requires_grad=True),), nonfinite=True)
    ask.nan(rec, root_diffusion)
