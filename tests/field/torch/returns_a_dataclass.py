# from: own
# ask: python
from dataclasses import dataclass

import torch
from torch import nn

import backprobe as bp


@dataclass
class Outputs:
    logits: torch.Tensor
    penalty: torch.Tensor
    name: str = "gate"


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x):
        logits = self.linear(x)
        return Outputs(logits, logits.square().mean())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = Gate()

    def forward(self, x):
        out = self.gate(x)
        return out.logits.sum() + 0.5 * out.penalty


torch.manual_seed(0)
rec = bp.probe(Net())(torch.randn(2, 3))
assert float(rec["gate:return.penalty"].grad) == 0.5, list(rec)
assert rec["gate:return.logits"].grad.shape == (2, 2)
