# from: own
# truth: healthy: the last bias cancels between real and generated
# kind: healthy
import torch
from torch import nn


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))

    def forward(self, real, made):
        return self.body(made).mean() - self.body(real).mean()


torch.manual_seed(0)
PROBED = Critic()
GIVEN = torch.randn(32, 3) + 1, torch.randn(32, 3)
