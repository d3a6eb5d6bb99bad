# from: https://github.com/vllm-project/vllm/pull/2974
# ask: python
# says: ^values differ first at 'norm'|^values differ first at 'norm:
# says: what it is computed from agrees
# never: 'norm.weight' differs
# The reference keeps the scale less one, as Gemma does; the port takes it for the scale.
import torch
from torch import nn

import backprobe as bp


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        normed = x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
        return normed * (1 + self.weight)


class PortedNorm(Norm):
    def forward(self, x):
        normed = x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
        return normed * self.weight  # <- here


class Model(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.embed, self.norm, self.head = nn.Embedding(10, 8), norm, nn.Linear(8, 10)

    def forward(self, ids, labels):
        logits = self.head(self.norm(self.embed(ids)))
        return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


torch.manual_seed(0)
reference, port = Model(Norm(8)), Model(PortedNorm(8))
nn.init.normal_(reference.norm.weight, std=0.3)
port.load_state_dict(reference.state_dict())
ids = torch.randint(0, 10, (3, 7))
select = ["**", "**:*"]
print(bp.diff(bp.probe(reference, select)(ids, ids), bp.probe(port, select)(ids, ids)))
