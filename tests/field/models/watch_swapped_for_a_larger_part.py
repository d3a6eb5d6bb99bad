# from: own
# ask: python
# says: one row each True
# never: does not step
# A layer of a Sequential is swapped for a part of several layers: no name has two rows.
import collections
import tempfile

import torch
from torch import nn

import backprobe as bp

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
folder = tempfile.mkdtemp() + "/run"
with bp.watch(model, folder, optimizer=optimizer) as run:
    for step in range(30):
        if step == 10:
            model[2] = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
            optimizer.add_param_group({"params": list(model[2].parameters())})
        if step == 20:
            model[0] = nn.Linear(4, 8)
            optimizer.add_param_group({"params": list(model[0].parameters())})
        x = torch.randn(16, 4)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), x[:, :2].argmax(1)).backward()
        optimizer.step()
text = str(bp.open_run(folder).report())
print(text)
rows = collections.Counter(line.split("  ")[0] for line in text.splitlines() if "▁" in line or "▅" in line)
print("one row each", max(count for name, count in rows.items() if name[:1].isdigit()) == 1)
