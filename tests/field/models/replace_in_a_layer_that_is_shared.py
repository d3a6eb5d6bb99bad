# from: own
# ask: python
# says: second only True
# says: both True
# One layer runs twice: "#1" replaces what its second call returns, the bare name both.
import torch
from torch import nn

import backprobe as bp


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.out = nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x):
        return self.out(self.layer(self.layer(x).tanh()).tanh()).mean()


torch.manual_seed(0)
model, x = Model(), torch.randn(3, 4)
second = bp.probe(model, replace={"layer#1": torch.zeros_like})(x)
both = bp.probe(model, replace={"layer": torch.zeros_like})(x)
print("second only", torch.equal(second.result, model.out(torch.zeros(3, 4)).mean()), second["layer#0"].replaced)
print("both", both["layer#0"].replaced and both["layer#1"].replaced)
