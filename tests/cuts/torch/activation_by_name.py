# from: own
# ask: explain PROGRAM:net x='[[0.2, -0.4, 1.0], [0.9, 0.3, -1.2]]'
# kind: discrete
# name: lift
# missing: lift.weight
"""A configuration chooses the activation; one of the choices is a step, which has no slope."""

import torch
from torch import nn

ACTIVATIONS = {
    "soft": torch.tanh,
    "leaky": lambda t: torch.where(t > 0, t, 0.1 * t),
    "hard": lambda t: t.gt(0).to(t),  # <- here
}


class Net(nn.Module):
    def __init__(self, activation):
        super().__init__()
        self.lift, self.head = nn.Linear(3, 6), nn.Linear(6, 1)
        self.activation = ACTIVATIONS[activation]

    def forward(self, x):
        h = self.lift(x)
        a = self.activation(h)  # <- here
        return self.head(a).square().mean()


torch.manual_seed(3)
net = Net("hard")
