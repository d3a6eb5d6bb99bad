# from: https://github.com/huggingface/transformers/issues/26221
# never: no_grad
# never: got no gradient
# never: reentrant
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
embed = nn.Embedding(10, 6).requires_grad_(False)
layers = nn.ModuleList(nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 6), nn.Tanh()) for _ in range(2))
head = nn.Linear(6, 10)
optimizer = torch.optim.AdamW([*layers.parameters(), *head.parameters()], lr=1e-2)
for step in range(3):
    ids = torch.randint(0, 10, (3, 5))
    h = embed(ids)
    for layer in layers:
        h = checkpoint(layer, h, use_reentrant=False)
    loss = nn.functional.cross_entropy(head(h).flatten(0, 1), ids.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(all(p.grad is not None and p.grad.abs().sum() > 0 for p in layers.parameters()))
