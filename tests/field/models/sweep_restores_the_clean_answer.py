# from: https://github.com/TransformerLensOrg/TransformerLens/pull/165
# ask: python
# says: same True
# Residual stream patching by position, against hooks written by hand.
import torch
import torch.nn.functional as F
from torch import nn

import backprobe as bp


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width))

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        return x + self.mlp(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.blocks = nn.Embedding(12, 16), nn.ModuleList(Block(16) for _ in range(3))
        self.unembed = nn.Linear(16, 12, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.unembed(x)


torch.manual_seed(0)
model = Model().eval()
clean, corrupt = torch.tensor([[3, 1, 7, 5]]), torch.tensor([[3, 2, 7, 5]])


def difference(logits):
    return logits[0, -1, 1] - logits[0, -1, 2]


saved = bp.probe(model, "blocks.*", of=difference)(clean)
swept = bp.sweep(model, "blocks.*", of=difference, replace=saved, axis=1)(corrupt)
print(swept)

cache = {}
for number, block in enumerate(model.blocks):
    block.register_forward_hook(lambda module, args, out, number=number: cache.__setitem__(number, out.detach()))
with torch.no_grad():
    model(clean)
    kept = dict(cache)
    plain = difference(model(corrupt))
    expected = torch.zeros(3, 4)
    for number, block in enumerate(model.blocks):
        for place in range(4):

            def patch(module, args, out, number=number, place=place):
                out = out.clone()
                out[:, place] = kept[number][:, place]
                return out

            handle = block.register_forward_hook(patch)
            expected[number, place] = difference(model(corrupt)) - plain
            handle.remove()
print("same", bool(torch.allclose(torch.as_tensor(swept.grid, dtype=torch.float32), expected, atol=1e-5)))
