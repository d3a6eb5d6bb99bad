# from: https://github.com/pytorch/pytorch/issues/3506
# never: got no gradient|exactly 0|useless|changes next to nothing|changes no|changes none|is dropped|cuts|cancel|unused|not used
# Sparse gradients of the few rows that a batch uses, beside a table with padding.
import torch
from torch import nn

torch.manual_seed(0)
users, items = nn.Embedding(50, 6, sparse=True), nn.EmbeddingBag(40, 6, mode="mean", sparse=True, padding_idx=0)
bias = nn.Linear(6, 1)
sparse = torch.optim.SparseAdam([*users.parameters(), *items.parameters()], lr=1e-2)
dense = torch.optim.Adam(bias.parameters(), lr=1e-2)
for step in range(4):
    who, what = torch.randint(0, 50, (8,)), torch.randint(0, 40, (8, 3))
    h = users(who) * items(what)
    loss = nn.functional.binary_cross_entropy_with_logits(bias(h)[:, 0], torch.rand(8).round())
    sparse.zero_grad()
    dense.zero_grad()
    loss.backward()
    sparse.step()
    dense.step()
print(loss.item())
