# from: own
# truth: healthy: log-weights are normalised and added to log-densities, of which no sum is 1
# kind: healthy
import math

import torch
from torch import nn


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(2, 12)
        self.heads = nn.ModuleDict({name: nn.Linear(12, 4) for name in ("weight", "mean", "spread")})

    def forward(self, x, y):
        hidden = self.body(x).tanh()
        weight, mean, spread = (head(hidden) for head in self.heads.values())
        density = -0.5 * ((y[:, None] - mean) / spread.exp()).square() - spread - 0.5 * math.log(2 * math.pi)
        return -torch.logsumexp(weight.log_softmax(-1) + density, dim=-1).mean()


torch.manual_seed(0)
PROBED = Mixture()
GIVEN = torch.randn(25, 2), torch.randn(25)
