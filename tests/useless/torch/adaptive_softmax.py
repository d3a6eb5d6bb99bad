# from: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveLogSoftmaxWithLoss.html
# truth: healthy: the cluster of rare words is used only by batches that have one of them
# kind: healthy
import torch
from torch import nn

torch.manual_seed(0)
embed = nn.Embedding(60, 16)
head = nn.AdaptiveLogSoftmaxWithLoss(16, 60, cutoffs=[10, 40], div_value=2.0)
optimizer = torch.optim.Adam([*embed.parameters(), *head.parameters()], lr=0.01)
for step in range(5):
    ids = (torch.rand(30) ** 3 * (59 if step % 2 else 35)).long()
    _, loss = head(embed(ids), (ids + 1) % 60)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
