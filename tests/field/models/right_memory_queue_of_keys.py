# from: https://github.com/facebookresearch/moco/issues/21
# ask: memory
# exit: 0
# never: keeps the graphs
# never: next:
# A queue of keys that were computed without gradients is written in place.
import copy

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
encoder = nn.Linear(6, 8)
slow = copy.deepcopy(encoder)
queue = F.normalize(torch.randn(64, 8), dim=1)
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
for step in range(20):
    x = torch.randn(16, 6)
    query = F.normalize(encoder(x), dim=1)
    with torch.no_grad():
        for mine, theirs in zip(slow.parameters(), encoder.parameters()):
            mine.mul_(0.9).add_(theirs, alpha=0.1)
        key = F.normalize(slow(x + 0.1), dim=1)
    logits = torch.cat([(query * key).sum(1, keepdim=True), query @ queue.T.clone()], 1) / 0.2
    loss = F.cross_entropy(logits, torch.zeros(16, dtype=torch.long))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    queue[step % 4 * 16 : step % 4 * 16 + 16] = key
