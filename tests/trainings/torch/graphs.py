"""Messages between the nodes of a graph, of which few have labels."""

import torch
from torch import nn

from trainings.planted import faults, grid
from trainings.with_torch import Training, optimizer_of, seeded

HEALTHY = grid(layers=[1, 2, 3], share=[0.2, 0.8], optimizer=["adam", "adamw"])
FAULTY = faults("no_step", "wrong_sign", "zero_gradients", "learning_rate", "wrong_labels", rise=1000.0)


class Model(nn.Module):
    def __init__(self, layers, mixing):
        super().__init__()
        self.mixing = mixing
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(layers))
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(self.mixing @ x)) + x
        return self.head(x)


def make(seed, layers=2, share=0.5, optimizer="adam"):
    generator = seeded(seed)
    labels = torch.randint(0, 3, (60,), generator=generator)
    near = torch.rand(60, 60, generator=generator) < 0.02 + 0.15 * (labels[:, None] == labels)
    near = (near | near.T | torch.eye(60, dtype=torch.bool)).float()
    model = Model(layers, near / near.sum(-1, keepdim=True))
    x = torch.randn(60, 8, generator=generator)
    x[:, :3] += 0.5 * torch.eye(3)[labels]
    known = torch.rand(60, generator=generator) < share

    def each(x, labels):
        return nn.functional.cross_entropy(model(x)[known], labels[known], reduction="none")

    return Training(model, [optimizer_of(optimizer, model.parameters())], lambda step: (x, labels), each, steps=150)
