"""The reference: a language model whose last layer is its embedding."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.mlp = nn.Embedding(11, 6), nn.Linear(6, 6)

    def forward(self, ids):
        x = self.embed(ids)
        x = x + torch.tanh(self.mlp(x))
        return x @ self.embed.weight.T
