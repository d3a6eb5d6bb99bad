# from: https://github.com/TransformerLensOrg/TransformerLens/issues/980
# ask: python
# says: blocks\.0
# says: \(1, 5, 8\)
# says: \(1, 4, 8\)
# never: Traceback
# The clean prompt has one token more: refused before anything is replaced, with both shapes.
import torch
from torch import nn

import backprobe as bp


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.blocks = nn.Embedding(12, 8), nn.ModuleList(nn.Linear(8, 8) for _ in range(2))

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = x + block(x).tanh()
        return x.mean()


torch.manual_seed(0)
model = Model()
saved = bp.probe(model, "blocks.*")(torch.tensor([[1, 2, 3, 4, 5]]))
try:
    bp.sweep(model, "blocks.*", replace=saved)(torch.tensor([[1, 2, 3, 4]]))
except bp.BackprobeError as error:
    print(error)
