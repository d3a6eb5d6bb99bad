# from: https://github.com/keras-team/keras-hub/pull/1382
# ask: python
# says: ok True
# never: differs? first
# One projection that is cut into three, against three projections.
import torch
from torch import nn

import backprobe as bp


class Separate(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.out = (nn.Linear(8, 8) for _ in range(4))

    def forward(self, x):
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        q, k, v = (one.unflatten(-1, (2, 4)).transpose(1, 2) for one in (q, k, v))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2)).square().mean()


class Fused(nn.Module):
    def __init__(self, other):
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        parts = other.q_proj, other.k_proj, other.v_proj
        with torch.no_grad():
            self.qkv.weight.copy_(torch.cat([part.weight for part in parts]))
            self.qkv.bias.copy_(torch.cat([part.bias for part in parts]))
        self.out.load_state_dict(other.out.state_dict())

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k, v = (one.unflatten(-1, (2, 4)).transpose(1, 2) for one in (q, k, v))
        weights = (q @ k.mT / 2).masked_fill(torch.ones(6, 6).tril() == 0, -torch.inf).softmax(-1)
        mixed = weights @ v
        return self.out(mixed.transpose(1, 2).flatten(2)).square().mean()


torch.manual_seed(0)
reference = Separate()
port, x = Fused(reference), torch.randn(3, 6, 8)
select = ["**", "**:*"]
report = bp.diff(bp.probe(reference, select)(x), bp.probe(port, select)(x))
print(report)
print("ok", report.ok)
