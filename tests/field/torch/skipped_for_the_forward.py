# from: own
# ask: python
import tempfile

import torch

import backprobe as bp

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
with tempfile.TemporaryDirectory() as folder:
    with bp.watch(model, f"{folder}/run", optimizer=optimizer, scaler=scaler) as run:
        for step in range(4):
            x = torch.randn(6, 3)
            if step == 2:
                x[1, 2] = float("nan")
            loss = model(x).square().mean()
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            run.log(loss=loss)
    with bp.open_run(f"{folder}/run") as run:
        told = str(run.gaps)
        assert run.skipped == [2], run.skipped
        assert "the forward had NaN already" in told, told
        assert "overflow" not in told, told
        assert "overflow" not in str(run.alerts), run.alerts
