"""A deep network of sigmoids hardly learns. Which layers starve, and since when?"""

import tempfile

import torch
from torch import nn

import backprobe as bp

torch.manual_seed(0)
hidden = [part for _ in range(6) for part in (nn.Linear(16, 16), nn.Sigmoid())]
model = nn.Sequential(*hidden, nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

with tempfile.TemporaryDirectory() as folder:
    with bp.watch(model, f"{folder}/run", optimizer=optimizer) as run:
        for x in torch.randn(100, 32, 16):
            loss = nn.functional.cross_entropy(model(x), (x.sum(1) > 0).long())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            run.log(loss=loss)
    with bp.open_run(f"{folder}/run") as run:
        for alert in run.alerts:
            print(alert)
        names, steps, grid = run.grid("grad.rms")
        for name, row in zip(names, grid, strict=True):
            if name.endswith(".weight"):
                print(f"{name:10}  grad.rms {row[0]:.1e} at step {steps[0]}, {row[-1]:.1e} at step {steps[-1]}")
