"""Half precision: autocast, a GradScaler, and parameters in bfloat16, which small updates do not change."""

import torch
from torch import nn

from trainings.planted import Fault, grid
from trainings.with_torch import Training, optimizer_of, seeded

HEALTHY = (
    grid(kind=["autocast"], optimizer=["adam", "sgd"], batch=[4, 32])
    | grid(kind=["scaler"], optimizer=["adam", "sgd"], scale=[256.0, 1e6])
    | grid(kind=["bfloat16"], optimizer=["sgd"], rate=[0.05, 0.1])
)
FAULTY = {
    "bfloat16, tiny rate": {"kind": "bfloat16", "rate": 1e-6, "fault": Fault("stagnation", 0)},
    "bfloat16, small rate of adam": {
        "kind": "bfloat16",
        "optimizer": "adam",
        "rate": 1e-6,
        "fault": Fault("stagnation", 0),
    },
    "float32, tiny rate": {"kind": "plain", "rate": 1e-11, "fault": Fault("stagnation", 0)},
    "autocast, no step": {"kind": "autocast", "fault": Fault("no_step")},
    "scaler, wrong sign": {"kind": "scaler", "fault": Fault("wrong_sign", 0)},
    "scaler, NaN": {"kind": "scaler", "fault": Fault("not_finite")},
    "autocast, rate": {"kind": "autocast", "fault": Fault("learning_rate", size=300.0)},
}


def make(seed, kind, optimizer="sgd", batch=16, scale=256.0, rate=None):
    generator = seeded(seed)
    model, weights = (
        nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1)),
        torch.randn(6, 1, generator=generator),
    )
    if kind == "bfloat16":
        model.bfloat16()

    def draw(step):
        x = torch.randn(batch, 6, generator=generator)
        return x, torch.sin(x @ weights)

    def each(x, y):
        if kind == "bfloat16":
            return (model(x.bfloat16()).float() - y).square().squeeze(-1)
        with torch.autocast("cpu", torch.bfloat16, enabled=kind != "plain"):
            predicted = model(x)
        return (predicted.float() - y).square().squeeze(-1)

    scaler = torch.amp.GradScaler("cpu", init_scale=scale) if kind == "scaler" else None
    made = optimizer_of(optimizer, model.parameters(), rate)
    return Training(model, [made], draw, each, steps=150, scaler=scaler)
