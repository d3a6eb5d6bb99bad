# from: https://github.com/facebookresearch/fvcore/blob/main/fvcore/nn/focal_loss.py
# truth: healthy: easy samples weigh nearly nothing, the bias begins at -4.6 so that all are easy negatives but few
# kind: healthy
import math

import torch
import torch.nn.functional as F
from torch import nn


def focal(logits, targets, alpha=0.25, gamma=2.0):
    p = torch.sigmoid(logits)
    ce = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    p_t = p * targets + (1 - p) * (1 - targets)
    return ((alpha * targets + (1 - alpha) * (1 - targets)) * ce * (1 - p_t) ** gamma).sum()


torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))
nn.init.constant_(net[2].bias, -math.log(99))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
for step in range(5):
    truth = (torch.rand(4, 1, 10, 10) > 0.95).float()
    picture = truth * 2 + 0.3 * torch.randn(4, 1, 10, 10)
    loss = focal(net(picture), truth) / truth.sum().clamp(min=1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
