# from: own
# ask: explain --nonfinite
# exit: 1
# never: \+ 1\.19e-07
"""A sequence of padding alone goes through attention: no small number in what the line is given changes that."""

import torch
from torch import nn

torch.manual_seed(0)
embed, attention, head = nn.Embedding(7, 4), nn.MultiheadAttention(4, 2, batch_first=True), nn.Linear(4, 1)
words = torch.tensor([[1, 2], [0, 0]])
padding = torch.zeros(2, 2).masked_fill(words == 0, float("-inf"))
optimizer = torch.optim.SGD([*embed.parameters(), *attention.parameters(), *head.parameters()], lr=0.1)
for _ in range(2):
    h = embed(words)
    mixed, weights = attention(h, h, h, key_padding_mask=padding)  # <- here
    loss = head(mixed).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
