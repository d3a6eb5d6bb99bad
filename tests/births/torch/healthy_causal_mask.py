# from: https://pytorch.org/docs/stable/generated/torch.nn.Transformer.html
# ask: explain --nonfinite
# birth: healthy
# given: mask
"""A causal mask of -inf: each row can look at itself."""

import torch
from torch import nn

torch.manual_seed(0)
layer, head = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0), nn.Linear(8, 1)
mask = nn.Transformer.generate_square_subsequent_mask(4)
optimizer = torch.optim.AdamW([*layer.parameters(), *head.parameters()], lr=1e-3)
x, y = torch.randn(2, 4, 8), torch.randn(2, 4, 1)
for _ in range(3):
    loss = nn.functional.mse_loss(head(layer(x, src_mask=mask)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
