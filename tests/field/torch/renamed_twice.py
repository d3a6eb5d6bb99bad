# from: own
# ask: python
import torch
from torch import nn

import backprobe as bp


class Named(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.name = name
        setattr(self, name, nn.Linear(3, 3))

    def forward(self, x):
        return getattr(self, self.name)(x).tanh()


class Stack(nn.Module):
    def __init__(self, layers, name):
        super().__init__()
        self.layers_name = layers
        setattr(self, layers, nn.ModuleList(Named(name) for _ in range(2)))

    def forward(self, x):
        for layer in getattr(self, self.layers_name):
            x = layer(x)
        return x.sum()


torch.manual_seed(0)
first, second = Stack("h", "ln_1"), Stack("layers", "norm1")
second.load_state_dict(
    {name.replace("h.", "layers.", 1).replace("ln_1", "norm1"): value for name, value in first.state_dict().items()}
)
x = torch.randn(2, 3)
a, b = bp.probe(first)(x), bp.probe(second)(x)
table = {"h.*": "layers.*", "**.ln_1": "**.norm1"}
for rename in (table, dict(reversed(table.items())), {"h.*": "layers.*", "h.*.ln_1": "layers.*.norm1"}):
    report = bp.diff(a, b, rename=rename)
    assert not report.findings, report
    assert "only in" not in str(report), report
