# from: own
# exit: 1
# says: sparse
# says: step
# says: table\.weight|table
# never: got no gradient
# The table has an optimizer of its own, for sparse gradients, and only the other one is stepped.
import torch
from torch import nn

torch.manual_seed(0)
table, tower = nn.EmbeddingBag(100, 8, sparse=True), nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
sparse = torch.optim.SparseAdam(table.parameters(), lr=1e-2)
dense = torch.optim.Adam(tower.parameters(), lr=1e-3)
for step in range(4):
    words, clicked = torch.randint(0, 100, (32, 5)), torch.randint(0, 2, (32, 1)).float()
    loss = nn.functional.binary_cross_entropy_with_logits(tower(table(words)), clicked)
    sparse.zero_grad()
    dense.zero_grad()
    loss.backward()
    dense.step()
print(loss.item())
