# from: own
# ask: check PROGRAM:net x=randn(5,8)
# says: right
# never: kink
# never: so large
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = nn.Linear(8, 64), nn.Linear(64, 3)

    def forward(self, x):
        h = self.hidden(x)
        return self.out(h)


torch.manual_seed(7)
net = Net()
