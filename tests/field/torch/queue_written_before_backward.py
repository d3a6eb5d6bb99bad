# from: https://github.com/facebookresearch/moco/issues/21
# exit: 3
# says: queue\[:, at ?: ?at \+ 8\] = k\.T
# says: q @ queue
# says: next: a new tensor instead of
# The keys of the batch go into the queue that the scores were computed from.
import copy

import torch
from torch import nn

torch.manual_seed(0)
query = nn.Linear(6, 4)
key = copy.deepcopy(query).requires_grad_(False)
queue, at = nn.functional.normalize(torch.randn(4, 32), dim=0), 0
optimizer = torch.optim.SGD(query.parameters(), lr=0.1)
for step in range(3):
    views = torch.randn(2, 8, 6)
    q = nn.functional.normalize(query(views[0]), dim=1)
    with torch.no_grad():
        k = nn.functional.normalize(key(views[1]), dim=1)
    same = (q * k).sum(1, keepdim=True)
    scores = torch.cat([same, q @ queue], 1) / 0.1
    queue[:, at : at + 8] = k.T  # <- here
    at = (at + 8) % 32
    loss = nn.functional.cross_entropy(scores, torch.zeros(8, dtype=torch.long))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
