# from: https://github.com/google/flax/issues/963
# ask: python
# says: ^values differ first at 'drop'
# says: what it is computed from agrees: .*'hidden' \(equal\)
# The port is still in training mode, so its dropout drops.
import torch
from torch import nn

import backprobe as bp


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.drop, self.out = nn.Linear(6, 32), nn.Dropout(0.25), nn.Linear(32, 2)

    def forward(self, x):
        return self.out(self.drop(self.hidden(x)))


torch.manual_seed(0)
reference, port = Model().eval(), Model()
port.load_state_dict(reference.state_dict())
x = torch.randn(8, 6)
print(bp.diff(bp.probe(reference, of=lambda y: y.mean())(x), bp.probe(port, of=lambda y: y.mean())(x)))
