# from: own
# ask: python
import torch
from torch import nn

import backprobe as bp


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head, self.idle = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False), nn.Linear(3, 3)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        return self.embed(ids).square().sum() + nn.functional.linear(torch.ones(3), self.idle.weight).sum()


model = Tied()
with bp.probe(model) as rec:
    model(torch.tensor([1, 2])).backward()
assert rec["head"].reason == "no call of it was seen", rec["head"].reason  # the other module that has it was called
assert str(rec["idle"].status) == "opaque", rec["idle"].reason
assert "its parameters have gradients" in rec["idle"].reason, rec["idle"].reason
