"""Two views of a sample attract one another, and a loss that cannot fall far."""

import torch
from torch import nn

from trainings.planted import faults, grid
from trainings.with_torch import Training, optimizer_of, seeded

HEALTHY = grid(batch=[4, 32], temperature=[0.1, 0.5], optimizer=["adam", "momentum"])
FAULTY = faults("no_step", "wrong_sign", "zero_gradients", "accumulated")


def make(seed, batch=16, temperature=0.5, optimizer="adam"):
    generator = seeded(seed)
    model = nn.Sequential(nn.Linear(8, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 8))

    def draw(step):
        x = torch.randn(batch, 8, generator=generator)
        return x, *(x + 0.2 * torch.randn(batch, 8, generator=generator) for _ in range(2))

    def each(x, one, other):
        one, other = nn.functional.normalize(model(one)), nn.functional.normalize(model(other))
        return nn.functional.cross_entropy(one @ other.T / temperature, torch.arange(len(x)), reduction="none")

    return Training(model, [optimizer_of(optimizer, model.parameters())], draw, each, steps=150)
