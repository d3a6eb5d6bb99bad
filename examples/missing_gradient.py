"""The encoder never learns. Which line keeps the gradient from it?"""

import torch
from torch import nn

import backprobe as bp


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(4, 8)
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        features = torch.relu(self.encoder(x))
        cache = features.detach()
        return self.head(cache)


torch.manual_seed(0)
model, x, y = Ranker(), torch.randn(32, 4), torch.randn(32, 1)

with bp.probe(model) as rec:
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()

print(bp.explain(rec))
