# from: own
# ask: python
from pathlib import Path

import torch
from torch import nn

import backprobe as bp

torch.manual_seed(0)
encoder, head = nn.Linear(4, 6), nn.Linear(6, 1)


def step(x):
    with torch.no_grad():
        features = encoder(x).tanh()
    return head(features).square().mean()


x = torch.randn(3, 4)
with bp.probe() as rec:
    loss = step(x)
    loss.backward()
assert encoder.weight.grad is None and head.weight.grad is not None
report = str(bp.explain(rec))
assert "no_grad" in report, report
lines = Path(__file__).read_text().splitlines()
number = 1 + next(n for n, line in enumerate(lines) if line.strip().startswith("with torch.no_grad"))
assert f"{Path(__file__).name}:{number}" in report, report
