# from: own
# truth: the weights are normalised over the last dimension, which has one element: each is 1
# kind: cancels
# names: relevance.weight relevance
import torch
from torch import nn


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(6, 16)
        self.relevance = nn.Linear(16, 1)
        self.classify = nn.Linear(16, 3)

    def forward(self, steps, label):
        hidden = self.embed(steps).tanh()
        weight = torch.softmax(self.relevance(hidden), dim=-1)  # <- here
        pooled = (weight * hidden).mean(1)
        return nn.functional.cross_entropy(self.classify(pooled), label)


torch.manual_seed(0)
PROBED = Pooled()
GIVEN = torch.randn(12, 7, 6), torch.randint(3, (12,))
