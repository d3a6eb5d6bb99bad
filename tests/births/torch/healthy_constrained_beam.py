# from: https://huggingface.co/docs/transformers/internal/generation_utils
# ask: explain --nonfinite
# birth: healthy
# given: logits, allowed
"""Words that are not allowed have a logit of -inf, and the target is one that is."""

import torch
from torch import nn

torch.manual_seed(0)
embed, head = nn.Embedding(6, 4), nn.Linear(4, 6)
optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], lr=0.1)
words, targets = torch.tensor([1, 2, 3]), torch.tensor([2, 4, 0])
allowed = torch.ones(3, 6, dtype=torch.bool)
allowed[:, 5] = False
for _ in range(3):
    logits = head(embed(words)).masked_fill(~allowed, float("-inf"))
    loss = nn.functional.cross_entropy(logits, targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
