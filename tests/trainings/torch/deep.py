"""Deep networks: how they are initialized decides whether a gradient comes to the first layer."""

import torch
from torch import nn

from trainings.planted import Fault, faults, grid
from trainings.with_torch import Training, optimizer_of, seeded

HEALTHY = grid(kind=["residual", "relu", "norm", "tanh"], depth=[6, 12], optimizer=["adam", "sgd"])
FAULTY = {
    "sigmoid vanishes": {"kind": "sigmoid", "depth": 14, "fault": Fault("vanishing", 0)},
    "small weights vanish": {"kind": "relu", "depth": 14, "gain": 0.1, "fault": Fault("vanishing", 0)},
    "great weights explode": {"kind": "relu", "depth": 14, "gain": 4.0, "fault": Fault("exploding", 0)},
    "greater weights explode": {"kind": "relu", "depth": 20, "gain": 3.0, "fault": Fault("exploding", 0)},
    "tanh saturates": {"kind": "tanh", "depth": 10, "gain": 12.0, "fault": Fault("saturated", 0)},
    "biases kill": {"kind": "relu", "depth": 6, "bias": -4.0, "fault": Fault("dead", 0)},
} | faults("learning_rate", "no_step", "wrong_sign", kind="residual", depth=6, rise=300.0)


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.lin = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        return x + torch.relu(self.lin(self.norm(x)))


def block(kind, width, gain, bias):
    """A layer of the depth, as a list of modules."""
    if kind == "residual":
        return [Residual(width)]
    lin = nn.Linear(width, width)
    if kind in ("relu", "norm"):
        nn.init.kaiming_normal_(lin.weight, nonlinearity="relu")
    else:
        nn.init.xavier_normal_(lin.weight, 5 / 3 if kind == "tanh" else 1.0)
    lin.weight.data.mul_(gain)
    lin.bias.data.fill_(bias)
    activation = {"relu": nn.ReLU, "norm": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}[kind]()
    return [lin, nn.LayerNorm(width), activation] if kind == "norm" else [lin, activation]


def make(seed, kind, depth, optimizer="adam", gain=1.0, bias=0.0):
    generator, width = seeded(seed), 24
    layers = [each for _ in range(depth) for each in block(kind, width, gain, bias)]
    model = nn.Sequential(nn.Linear(6, width), *layers, nn.Linear(width, 3))
    weights = torch.randn(6, 3, generator=generator)

    def draw(step):
        x = torch.randn(32, 6, generator=generator)
        return x, (x @ weights).argmax(-1)

    made = optimizer_of(optimizer, model.parameters(), {"adam": 1e-3, "sgd": 0.01}[optimizer])
    return Training(
        model, [made], draw, lambda x, y: nn.functional.cross_entropy(model(x), y, reduction="none"), steps=160
    )
