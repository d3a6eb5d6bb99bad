# from: own
# truth: healthy: the weights of the chosen two are divided by their sum; softmax was applied once
# kind: healthy
import torch
from torch import nn


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(6, 4)
        self.experts = nn.ModuleList([nn.Linear(6, 6) for _ in range(4)])

    def forward(self, x):
        probabilities = self.router(x).softmax(-1)
        weight, chosen = probabilities.topk(2, dim=-1)
        weight = weight / weight.sum(-1, keepdim=True)
        of_all = torch.stack([expert(x) for expert in self.experts], dim=1)
        picked = of_all.gather(1, chosen[..., None].expand(-1, -1, 6))
        share = torch.nn.functional.one_hot(chosen[:, 0], 4).float().mean(0)
        balance = 4 * (share * probabilities.mean(0)).sum()
        return ((weight[..., None] * picked).sum(1) - x).square().mean() + 0.01 * balance


torch.manual_seed(0)
PROBED = Experts()
GIVEN = (torch.randn(30, 6),)
