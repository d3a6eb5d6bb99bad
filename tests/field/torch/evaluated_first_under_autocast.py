# from: https://github.com/pytorch/pytorch/issues/112583
# ask: python
# A cast that was made under no_grad is kept for the training's forward in some releases: of what is so, so much is said.
import contextlib
import io

import torch
from torch import nn

import backprobe as bp

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 1))
x = torch.randn(6, 3)


def step(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with torch.no_grad():
            before = model(x).float()
        loss = (model(x).float() - before - 1).square().mean()
    return loss


model.zero_grad()
step(x).backward()
missing = [name for name, parameter in model.named_parameters() if parameter.grad is None]
with contextlib.redirect_stdout(io.StringIO()), bp.probe(model) as rec:
    model.zero_grad()
    step(x).backward()
said = str(bp.explain(rec))
assert ("no gradient" in said) == bool(missing), said
for name in missing:
    assert name.rsplit(".", 1)[0] in said, said
    assert "autocast" in said, said
