"""A differential equation as the loss, with derivatives of the network in it, at drawn places."""

import torch
from torch import nn

from trainings.planted import faults, grid
from trainings.with_torch import Training, optimizer_of, seeded

HEALTHY = grid(batch=[8, 32], optimizer=["adam", "rmsprop"], activation=["Tanh", "Softplus"])
FAULTY = faults("no_step", "wrong_sign", "learning_rate", "zero_gradients", rise=300.0)


def make(seed, batch=16, optimizer="adam", activation="Tanh"):
    generator = seeded(seed)
    model = nn.Sequential(nn.Linear(1, 16), getattr(nn, activation)(), nn.Linear(16, 1))

    def each(t):
        t = t.requires_grad_()
        u = 1 + t * model(t)
        (slope,) = torch.autograd.grad(u.sum(), t, create_graph=True)
        return (slope + u).square().squeeze(-1)

    def draw(step):
        return (torch.rand(batch, 1, generator=generator),)

    return Training(model, [optimizer_of(optimizer, model.parameters())], draw, each, steps=150)
