"""Autoencoders: plain, variational with a weight that grows, and one that removes noise, as diffusion does."""

import torch
from torch import nn

from trainings.planted import faults, grid
from trainings.with_torch import Training, optimizer_of, seeded

HEALTHY = grid(kind=["plain", "variational", "noise"], optimizer=["adam", "rmsprop"], batch=[2, 32])
FAULTY = faults("learning_rate", "no_step", "wrong_sign", "outlier", "dead", kind="plain") | {
    f"{name}, variational": one
    for name, one in faults("learning_rate", "wrong_sign", "zero_gradients", kind="variational", rise=100.0).items()
}


class Model(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.encode = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 8))
        self.decode = nn.Sequential(nn.Linear(4 if kind == "variational" else 8, 24), nn.ReLU(), nn.Linear(24, 12))

    def forward(self, x):
        if self.kind == "noise":
            noise = torch.randn_like(x)
            return (self.decode(self.encode(x + noise)) - noise).square().mean(-1)
        h = self.encode(x)
        if self.kind == "plain":
            return (self.decode(h) - x).square().mean(-1)
        mean, log_variance = h.chunk(2, -1)
        z = mean + (0.5 * log_variance).exp() * torch.randn_like(mean)
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(-1)
        return (self.decode(z) - x).square().mean(-1) + 0.01 * divergence


def make(seed, kind, optimizer="adam", batch=16):
    generator = seeded(seed)
    model, basis = Model(kind), torch.randn(3, 12, generator=generator)

    def draw(step):
        return (torch.randn(batch, 3, generator=generator) @ basis,)

    training = Training(model, [optimizer_of(optimizer, model.parameters())], draw, model, steps=150)
    training.plant["dead"] = lambda: model.encode[0].bias.data.fill_(-100.0)
    return training
