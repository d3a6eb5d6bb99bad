# from: own
# ask: python
import torch
from torch import nn

import backprobe as bp

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).requires_grad_(False)
ids = nn.Sequential(nn.Embedding(5, 4), model).requires_grad_(False)
try:
    said = str(bp.explain(bp.probe(ids, of=lambda y: y.square().mean())(torch.tensor([[1, 2]]))))
except Exception as error:
    said = "\n".join([str(error), *getattr(error, "__notes__", [])])
assert "frozen" in said or "requires_grad=False" in said.replace(" ", ""), said
