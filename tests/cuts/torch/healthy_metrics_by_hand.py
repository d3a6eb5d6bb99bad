# from: own
# ask: explain
# kind: healthy
"""Numbers are taken out of the graph to be printed, kept and compared, and nowhere else."""

import json
import statistics

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, t = torch.randn(30, 4), torch.randint(0, 3, (30,))
history, best = [], float("inf")
for step in range(3):
    scores = net(x)
    loss = nn.functional.cross_entropy(scores, t)
    right = (scores.argmax(-1) == t).float().mean().item()
    history.append({"loss": loss.item(), "right": right, "confidence": scores.softmax(-1).amax(-1).tolist()})
    best = min(best, float(loss))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(json.dumps(history[-1])[:60], statistics.fmean(each["loss"] for each in history), best)
