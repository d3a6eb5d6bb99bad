# from: https://github.com/gzuidhof/nn-transfer/pull/3
# ask: python
# says: ^values differ first at 'norm'
# says: what it is computed from agrees: .*'embed'
import torch
from torch import nn

import backprobe as bp


class Encoder(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.embed, self.norm, self.head = nn.Embedding(20, 16), nn.LayerNorm(16, eps=eps), nn.Linear(16, 20)

    def forward(self, ids):
        hidden = self.norm(self.embed(ids))
        return nn.functional.cross_entropy(self.head(hidden).flatten(0, 1), ids.flatten())


torch.manual_seed(0)
reference, port = Encoder(1e-12), Encoder(1e-5)
nn.init.normal_(reference.embed.weight, std=0.02)
port.load_state_dict(reference.state_dict())
ids = torch.randint(0, 20, (2, 9))
print(bp.diff(bp.probe(reference)(ids), bp.probe(port)(ids)))
