# from: own
# ask: python
import tempfile

import torch

import backprobe as bp

for dtype, rate in ((torch.bfloat16, 0.9833), (torch.float16, 0.7771), (torch.float32, 0.1)):
    layer = torch.nn.Linear(1, 1, bias=False).to(dtype)
    layer.weight.data.fill_(1.0)
    optimizer = torch.optim.SGD(layer.parameters(), lr=rate)
    with tempfile.TemporaryDirectory() as folder:
        with bp.watch(layer, f"{folder}/run", optimizer=optimizer, what=("value", "grad", "param", "update")):
            layer(torch.ones(1, 1, dtype=dtype)).float().sum().backward()
            before = layer.weight.item()
            optimizer.step()
        with bp.open_run(f"{folder}/run") as run:
            row = run.at(0)["weight"]
            assert row["update.min"] == layer.weight.item() - before, row
