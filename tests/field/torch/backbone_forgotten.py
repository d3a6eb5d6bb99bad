# from: own
# exit: 1
# says: 4 parameters .*get gradients, and no optimizer
# says: net\.backbone\.0\.weight
# never: net\.head
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.head = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8)), nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.backbone(x))


def train(net):
    optimizer = torch.optim.AdamW(net.head.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        net(torch.randn(32, 4)).square().mean().backward()
        optimizer.step()


torch.manual_seed(0)
train(Net())
