"""A trained model goes on: resumed, converged, with a frozen body, with low-rank additions, or layer by layer."""

import torch
from torch import nn

from trainings.planted import Fault, grid
from trainings.with_torch import Training, seeded

HEALTHY = grid(
    kind=["resumed", "converged", "frozen", "low rank", "small rates"], optimizer=["Adam", "SGD"], batch=[1, 16]
)
FAULTY = {
    "rate too high": {"kind": "converged", "fault": Fault("learning_rate", size=200.0)},
    "wrong labels": {"kind": "resumed", "fault": Fault("wrong_labels")},
    "no step": {"kind": "frozen", "fault": Fault("no_step")},
    "head is left out": {"kind": "left out", "fault": Fault("left_out", 0)},
    "zero": {"kind": "low rank", "fault": Fault("zero_gradients")},
    "wrong sign": {"kind": "resumed", "rate": 0.01, "fault": Fault("wrong_sign", 0)},
}


class LowRank(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(0.1 * torch.randn(2, base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, 2))

    def forward(self, x):
        return self.base(x) + x @ self.down.T @ self.up.T


def make(seed, kind, optimizer="Adam", batch=8, rate=None):
    generator = seeded(seed)
    model = nn.Sequential(nn.Linear(5, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 1))
    weights = torch.randn(5, 1, generator=generator)

    def draw(step, shift=0.0):
        x = torch.randn(batch, 5, generator=generator)
        return x, torch.tanh(x @ weights + shift) + 0.1 * torch.randn(batch, 1, generator=generator)

    first = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(300 if kind == "converged" else 80):
        x, y = draw(step)
        first.zero_grad()
        (model(x) - y).square().mean().backward()
        first.step()
    first.zero_grad()
    shift = 0.0 if kind in ("resumed", "converged") else 0.7
    if kind == "frozen":
        model[:3].requires_grad_(False)
    if kind == "low rank":
        model[0], model[2] = LowRank(model[0]), LowRank(model[2])
    groups = [each for each in model.parameters() if each.requires_grad]
    if kind == "small rates":
        groups = [{"params": each.parameters(), "lr": 1e-4 * 3**i} for i, each in enumerate(model) if i % 2 == 0]
    if kind == "left out":
        groups = [*model[:4].parameters()]
    made = getattr(torch.optim, optimizer)(groups, lr=rate or {"SGD": 0.005}.get(optimizer, 1e-3))
    return Training(
        model,
        [made],
        lambda step: draw(step, shift),
        lambda x, y: (model(x) - y).square().squeeze(-1),
        steps=150,
        start=80 if kind == "resumed" else None,
    )
