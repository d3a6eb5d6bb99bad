"""Several optimizers, gradients that are gathered over steps, a teacher that no optimizer steps, and a slow part."""

import torch
from torch import nn

from trainings.planted import Fault, grid
from trainings.with_torch import Training, seeded

HEALTHY = grid(kind=["two", "gathered", "teacher", "alternating"], batch=[4, 16]) | grid(
    kind=["gathered"], gather=[2, 8], batch=[2]
)
FAULTY = {
    "no step of either": {"kind": "two", "fault": Fault("no_step")},
    "second is missing": {"kind": "second is missing", "fault": Fault("left_out", 0)},
    "first is missing": {"kind": "first is missing", "fault": Fault("left_out", 0)},
    "gathered for ever": {"kind": "gathered", "fault": Fault("accumulated")},
    "teacher, wrong sign": {"kind": "teacher", "fault": Fault("wrong_sign", 0)},
    "two, rate": {"kind": "two", "fault": Fault("learning_rate", size=300.0)},
}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 16), nn.Tanh())
        self.head = nn.Linear(16, 1)
        self.teacher = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1)).requires_grad_(False)

    def forward(self, x):
        return self.head(self.body(x))


def make(seed, kind, batch=16, gather=4):
    generator = seeded(seed)
    model, weights = Model(), torch.randn(5, 1, generator=generator)
    body = torch.optim.SGD(model.body.parameters(), lr=0.02)
    head = torch.optim.SGD(model.head.parameters(), lr=0.02)
    idle = {"first is missing": (body,), "second is missing": (head,)}.get(kind, ())

    def loss():
        x = torch.randn(batch, 5, generator=generator)
        y = torch.tanh(x @ weights)
        found = (model(x) - y).square().mean()
        return found + 0.1 * (model(x) - model.teacher(x)).square().mean() if kind == "teacher" else found

    if kind == "gathered":
        both = torch.optim.Adam([*model.body.parameters(), *model.head.parameters()], lr=3e-3)
        return Training(model, [both], turns=lambda step: [(both, loss)], gather=gather, steps=160)

    def turns(step):
        if kind == "alternating":
            return [(body, loss)] if step % 2 else [(head, loss)]
        return [(body, loss), (head, loss)]

    def after(step):
        if kind == "teacher":
            with torch.no_grad():
                for mean, new in zip(model.teacher.parameters(), [*model.body.parameters(), *model.head.parameters()]):
                    mean.lerp_(new, 0.05)

    return Training(model, [body, head], turns=turns, after=after, steps=160, idle=idle)
