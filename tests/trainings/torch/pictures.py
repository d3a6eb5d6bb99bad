"""A convolutional network with batch norm and dropout on small pictures of stripes."""

import torch
from torch import nn

from trainings.planted import faults, grid
from trainings.with_torch import Training, optimizer_of, seeded

HEALTHY = grid(norm=["batch", "group", "none"], optimizer=["adam", "momentum"], dropout=[0.0, 0.3])
KINDS = "learning_rate", "wrong_labels", "no_step", "wrong_sign", "zero_gradients", "accumulated", "dead", "not_finite"
FAULTY = faults(*KINDS, norm="none") | {
    f"{name}, batch norm": one for name, one in faults(*KINDS[:4], norm="batch", rise=1000.0).items()
}


def make(seed, norm="batch", optimizer="adam", dropout=0.0):
    generator = seeded(seed)
    norms = {
        "batch": nn.BatchNorm2d,
        "group": lambda width: nn.GroupNorm(2, width),
        "none": lambda width: nn.Identity(),
    }
    model = nn.Sequential(
        nn.Conv2d(1, 6, 3),
        norms[norm](6),
        nn.ReLU(),
        nn.Conv2d(6, 8, 3, stride=2),
        norms[norm](8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(32, 3),
    )

    def draw(step):
        labels = torch.randint(0, 3, (24,), generator=generator)
        pictures = 0.7 * torch.randn(24, 1, 8, 8, generator=generator)
        pictures[labels == 0, :, ::2] += 1
        pictures[labels == 1, :, :, ::2] += 1
        return pictures, labels

    made = optimizer_of(optimizer, model.parameters())
    training = Training(
        model, [made], draw, lambda x, y: nn.functional.cross_entropy(model(x), y, reduction="none"), steps=150
    )
    training.plant["dead"] = lambda: model[3].bias.data.fill_(-80.0)
    return training
