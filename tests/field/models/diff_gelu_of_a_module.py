# from: https://github.com/Blaizzy/mlx-embeddings/issues/81
# ask: python
# says: ^values differ first at 'act'
# says: what it is computed from agrees: 'up' \(equal\)
import torch
from torch import nn

import backprobe as bp


class Block(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.norm, self.up, self.down, self.act = nn.LayerNorm(8), nn.Linear(8, 32), nn.Linear(32, 8), act

    def forward(self, x):
        return x + self.down(self.act(self.up(self.norm(x))))


torch.manual_seed(0)
reference = Block(nn.GELU())
port = Block(nn.GELU(approximate="tanh"))
port.load_state_dict(reference.state_dict())
x = 2 * torch.randn(16, 8)
report = bp.diff(bp.probe(reference, of=lambda y: y.square().mean())(x), bp.probe(port, of=lambda y: y.square().mean())(x))
print(report)
