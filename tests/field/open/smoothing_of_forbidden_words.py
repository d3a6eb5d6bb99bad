# from: https://github.com/facebookresearch/pytext/pull/1698
# ask: explain --nonfinite
# exit: 1
# says: label_smoothing
# says: [Ii]nf
# Words that may not be chosen have -inf, and smoothing gives each of them a share of the target.
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
body, words = nn.Embedding(12, 8), nn.Linear(8, 12)
optimizer = torch.optim.Adam([*body.parameters(), *words.parameters()], lr=1e-2)
allowed = torch.ones(12, dtype=torch.bool)
allowed[[0, 3]] = False
for step in range(3):
    given = torch.randint(4, 12, (16,))
    scores = words(body(given)).masked_fill(~allowed, float("-inf"))
    loss = F.cross_entropy(scores, given, label_smoothing=0.1)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
