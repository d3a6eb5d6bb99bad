# from: own
# truth: healthy: one sentence of the batch is empty and masked as a whole, which the loss weights leave out
# kind: healthy
import torch
from torch import nn

torch.manual_seed(0)
d = 8
query, key, value, head = nn.Linear(d, d), nn.Linear(d, d, bias=False), nn.Linear(d, d), nn.Linear(d, 3)
params = [p for m in (query, key, value, head) for p in m.parameters()]
optimizer = torch.optim.Adam(params, lr=0.01)
x, y = torch.randn(6, 5, d), torch.randint(0, 3, (6, 5))
real = torch.arange(5) < torch.tensor([5, 3, 0, 4, 5, 2])[:, None]
for step in range(3):
    scores = query(x) @ key(x).transpose(1, 2) / d**0.5
    scores = scores.masked_fill(~real[:, None, :], -1e9)
    out = head(scores.softmax(-1) @ value(x))
    each = nn.functional.cross_entropy(out.transpose(1, 2), y, reduction="none")
    loss = (each * real).sum() / real.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
