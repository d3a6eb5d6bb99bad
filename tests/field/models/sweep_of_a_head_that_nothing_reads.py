# from: https://github.com/ndif-team/nnsight/issues/525
# ask: python
# says: silent True
# says: exact True
# One head's columns of the last projection are zero: its ablation changes nothing, the other's changes what hooks say.
import torch
from torch import nn

import backprobe as bp


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        mixed = (q @ k.mT / 2).softmax(-1) @ v
        return self.out(mixed.transpose(1, 2).flatten(2))


torch.manual_seed(0)
model = Attention()
with torch.no_grad():
    model.out.weight[:, 4:] = 0
x = torch.randn(2, 5, 8)
swept = bp.sweep(model, ":mixed", of=lambda y: y.square().mean(), replace=torch.zeros_like, axis=1)(x)
print(swept)
effects = swept.grid.reshape(-1)
print("silent", effects[1] == 0)
hook = model.out.register_forward_pre_hook(lambda _, given: given[0] * torch.tensor([0.0] * 4 + [1.0] * 4))
with torch.no_grad():
    without = model(x).square().mean()
    hook.remove()
    print("exact", abs(effects[0] - (without - model(x).square().mean()).item()) < 1e-6)
