"""A generator against a discriminator: two optimizers, and losses that rise and fall."""

import torch
from torch import nn

from trainings.planted import Fault, grid
from trainings.with_torch import Training, seeded

HEALTHY = grid(kind=["logistic", "hinge", "wasserstein"], rounds=[1, 2], batch=[16, 64])
FAULTY = {
    "neither steps": {"fault": Fault("no_step")},
    "rates too high": {"fault": Fault("learning_rate", size=300.0)},
    "gradients are zero": {"fault": Fault("zero_gradients")},
    "signs are wrong": {"fault": Fault("wrong_sign", 0)},
}
softplus, relu = nn.functional.softplus, torch.relu


def make(seed, kind="logistic", rounds=1, batch=32):
    generator = seeded(seed)
    make_g = nn.Sequential(nn.Linear(3, 16), nn.LeakyReLU(0.2), nn.Linear(16, 2))
    make_d = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    model = nn.ModuleDict({"generator": make_g, "discriminator": make_d})
    rate = {"betas": (0.5, 0.9), "lr": 2e-3}
    of_d, of_g = torch.optim.Adam(make_d.parameters(), **rate), torch.optim.Adam(make_g.parameters(), **rate)

    def drawn():
        return make_g(torch.randn(batch, 3, generator=generator))

    def critic():
        real, fake = 0.5 * torch.randn(batch, 2, generator=generator) + 1.0, drawn().detach()
        good, bad = make_d(real), make_d(fake)
        if kind == "logistic":
            return softplus(-good).mean() + softplus(bad).mean()
        if kind == "hinge":
            return relu(1 - good).mean() + relu(1 + bad).mean()
        drift = 0.01 * (good.square() + bad.square()).mean()
        return bad.mean() - good.mean() + drift

    def forger():
        judged = make_d(drawn())
        return softplus(-judged).mean() if kind == "logistic" else -judged.mean()

    return Training(model, [of_d, of_g], turns=lambda step: [(of_d, critic)] * rounds + [(of_g, forger)], steps=150)
