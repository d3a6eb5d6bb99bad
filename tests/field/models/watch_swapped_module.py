# from: own
# ask: python
# says: rows of head: 1
# never: \.\.\. and
# A new head in the place of the old one, and the optimizer is told: one name is one row in the report.
import tempfile

import torch
from torch import nn

import backprobe as bp


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.body(x).tanh())


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
folder = tempfile.mkdtemp() + "/run"
with bp.watch(model, folder, optimizer=optimizer) as run:
    for step in range(20):
        if step == 10:
            model.head = nn.Linear(8, 3)
            optimizer.add_param_group({"params": list(model.head.parameters())})
        x = torch.randn(16, 4)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), x[:, :2].argmax(1)).backward()
        optimizer.step()
text = str(bp.open_run(folder).report())
print(text)
print("rows of head:", sum(line.split()[:1] == ["head"] for line in text.splitlines()))
