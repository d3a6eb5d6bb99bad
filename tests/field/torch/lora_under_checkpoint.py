# from: https://github.com/locuslab/open-unlearning/issues/178
# ask: explain
# exit: 1
# says: no input of `checkpoint\(layer, h, use_reentrant=True\)` requires a gradient, so this checkpoint records nothing
# says: model\.layers\.\{0,1\}\.\{up,down\}\.\{a,b\}
# says: next: use_reentrant=False; or requires_grad_\(\) on one of its inputs
# never: no_grad
# Low-rank adapters beside frozen layers, behind a frozen embedding: all but the head stays as it was.
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Adapted(nn.Module):
    def __init__(self, d, out):
        super().__init__()
        self.base = nn.Linear(d, out).requires_grad_(False)
        self.a, self.b = nn.Parameter(torch.randn(2, d) * 0.1), nn.Parameter(torch.zeros(out, 2))

    def forward(self, x):
        return self.base(x) + x @ self.a.T @ self.b.T


class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.up, self.down = Adapted(d, 2 * d), Adapted(2 * d, d)

    def forward(self, h):
        return h + self.down(nn.functional.gelu(self.up(h)))


class Decoder(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.embed = nn.Embedding(16, d).requires_grad_(False)
        self.layers = nn.ModuleList(Layer(d) for _ in range(2))
        self.head = nn.Linear(d, 16)

    def forward(self, ids):
        h = self.embed(ids)
        for layer in self.layers:
            h = checkpoint(layer, h, use_reentrant=True)  # <- here
        return self.head(h)


torch.manual_seed(0)
model = Decoder()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
for _ in range(3):
    ids = torch.randint(0, 16, (2, 5))
    loss = nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
