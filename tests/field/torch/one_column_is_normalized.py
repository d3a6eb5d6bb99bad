# from: https://github.com/pytorch/pytorch/issues/108956
# exit: 1
# says: LayerNorm|norm
# never: detach|no_grad|not used
"""A tabular model normalizes each numeric column by itself, so that nothing of it is left."""

import torch
from torch import nn

torch.manual_seed(0)


class Tabular(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.project = nn.Linear(3, 1)
        self.norm = nn.LayerNorm(1)
        self.head = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, category, numbers):
        column = self.project(numbers)
        column = self.norm(column)  # <- here
        return self.head(torch.cat([self.embed(category), column], dim=1)).squeeze(1)


model = Tabular()
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(3):
    category, numbers = torch.randint(0, 7, (16,)), torch.randn(16, 3)
    price = numbers.sum(dim=1) + category
    loss = nn.functional.smooth_l1_loss(model(category, numbers), price)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
