"""A regression by a small network: batch sizes from 1, several optimizers, noise that stays."""

import torch
from torch import nn

from trainings.planted import Fault, faults, grid
from trainings.with_torch import Training, optimizer_of, seeded

HEALTHY = (
    grid(optimizer=["sgd", "momentum", "adam", "adamw", "rmsprop", "adagrad"], batch=[1, 8, 64])
    | grid(noise=[0.5, 1.0], batch=[4, 32])
    | grid(activation=["Tanh", "GELU", "SiLU", "LeakyReLU"])
    | grid(schedule=["cosine", "warmup", "steps"])
)
COMMON = "learning_rate", "wrong_sign", "no_step", "zero_gradients", "accumulated", "cancelling", "outlier", "dead"
FAULTY = (
    faults(*COMMON, "not_finite")
    | {f"{name}, adam": {"optimizer": "adam", **one} for name, one in faults(*COMMON, rise=300.0).items()}
    | {"learning_rate, batch 4": {"batch": 4, "fault": Fault("learning_rate", size=100.0)}}
    | {"no_step from the start": {"fault": Fault("no_step", 0)}}
)


def make(seed, optimizer="sgd", batch=16, noise=0.1, activation="ReLU", schedule=""):
    generator = seeded(seed)
    model = nn.Sequential(
        nn.Linear(5, 24), getattr(nn, activation)(), nn.Linear(24, 24), getattr(nn, activation)(), nn.Linear(24, 1)
    )
    weights = torch.randn(5, 1, generator=generator)

    def draw(step):
        x = torch.randn(batch, 5, generator=generator)
        return x, torch.tanh(x @ weights) + noise * torch.randn(batch, 1, generator=generator)

    made = optimizer_of(optimizer, model.parameters())
    training = Training(model, [made], draw, lambda x, y: (model(x) - y).square().squeeze(-1))
    if schedule:
        training.schedulers.append(scheduler(schedule, made))
    training.plant["dead"] = lambda: model[0].bias.data.fill_(-50.0)
    return training


def scheduler(name, optimizer):
    """A schedule of the learning rate."""
    if name == "cosine":
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 200)
    if name == "warmup":
        return torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, 1.0, 40)
    return torch.optim.lr_scheduler.StepLR(optimizer, 60, 0.3)
