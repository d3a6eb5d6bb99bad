# from: own
# ask: explain
# exit: 1
# says: `torch\.sqrt\(energy\)`
# says: next: `torch\.sqrt\(
# never: 'energy' .*is not known
import torch
from torch import nn


class Length(nn.Module):
    def __init__(self):
        super().__init__()
        self.direction = nn.Parameter(torch.zeros(3))

    def forward(self, x):
        energy = (self.direction * x).square().sum()
        return torch.sqrt(energy)  # <- here


model = Length()
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    loss = model(torch.ones(3))
    loss.backward()
    optimizer.step()
