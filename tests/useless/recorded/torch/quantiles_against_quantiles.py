# from: own
# truth: healthy: each quantile with each sample, both unsqueezed
# kind: healthy
import torch
from torch import nn


class Quantiles(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))

    def forward(self, state, following, reward):
        now = self.net(state)
        with torch.no_grad():
            target = reward.unsqueeze(-1) + 0.9 * self.net(following)
        difference = target.unsqueeze(1) - now.unsqueeze(2)
        levels = (torch.arange(8) + 0.5) / 8
        huber = nn.functional.huber_loss(
            now.unsqueeze(2).expand(-1, 8, 8), target.unsqueeze(1).expand(-1, 8, 8), reduction="none"
        )
        return ((levels[None, :, None] - (difference.detach() < 0).float()).abs() * huber).sum(1).mean()


torch.manual_seed(0)
PROBED = Quantiles()
GIVEN = torch.randn(9, 4), torch.randn(9, 4), torch.randn(9)
