# from: https://github.com/fungtion/DANN
# truth: healthy: the reversed gradient is multiplied by a factor that is 0 at the very beginning and grows
# kind: healthy
import math

import torch
from torch import nn


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, alpha):
        ctx.alpha = alpha
        return x.view_as(x)

    @staticmethod
    def backward(ctx, upstream):
        return -ctx.alpha * upstream, None


torch.manual_seed(0)
feature = nn.Sequential(nn.Linear(4, 16), nn.ReLU())
label_head = nn.Sequential(nn.Linear(16, 2), nn.LogSoftmax(dim=1))
domain_head = nn.Sequential(nn.Linear(16, 2), nn.LogSoftmax(dim=1))
params = [*feature.parameters(), *label_head.parameters(), *domain_head.parameters()]
optimizer, nll = torch.optim.Adam(params, lr=5e-3), nn.NLLLoss()
source = torch.randn(32, 4)
target, y = torch.randn(32, 4) + 0.7, (source[:, 0] > 0).long()
for step in range(5):
    alpha = 2.0 / (1.0 + math.exp(-10 * step / 5)) - 1
    f_source, f_target = feature(source), feature(target)
    loss = nll(label_head(f_source), y)
    loss = loss + nll(domain_head(Reverse.apply(f_source, alpha)), torch.zeros(32).long())
    loss = loss + nll(domain_head(Reverse.apply(f_target, alpha)), torch.ones(32).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
