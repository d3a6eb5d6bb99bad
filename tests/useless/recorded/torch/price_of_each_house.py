# from: own
# truth: the model returns [32, 1] and the prices are [32]: every price is compared with every guess
# kind: outer product
import torch
from torch import nn


class Prices(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(13, 32), nn.SiLU(), nn.Linear(32, 1))

    def forward(self, rooms, price):
        guess = self.body(rooms)
        return (guess - price).abs().mean()  # <- here


torch.manual_seed(0)
PROBED = Prices()
GIVEN = torch.randn(32, 13), torch.randn(32)
