# from: https://github.com/facebookresearch/moco/issues/21
# never: got no gradient|exactly 0|useless|changes next to nothing|changes no|changes none|is dropped|cuts|cancel|unused|not used
# The scores are computed from a copy of the queue, which is then written.
import copy

import torch
from torch import nn

torch.manual_seed(0)
query = nn.Linear(6, 4)
key = copy.deepcopy(query).requires_grad_(False)
queue, at = nn.functional.normalize(torch.randn(4, 32), dim=0), 0
optimizer = torch.optim.SGD(query.parameters(), lr=0.1)
for step in range(4):
    views = torch.randn(2, 8, 6)
    q = nn.functional.normalize(query(views[0]), dim=1)
    with torch.no_grad():
        for slow, fast in zip(key.parameters(), query.parameters()):
            slow.lerp_(fast, 0.01)
        k = nn.functional.normalize(key(views[1]), dim=1)
    scores = torch.cat([(q * k).sum(1, keepdim=True), q @ queue.clone()], 1) / 0.1
    queue[:, at : at + 8] = k.T
    at = (at + 8) % 32
    loss = nn.functional.cross_entropy(scores, torch.zeros(8, dtype=torch.long))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
