# from: https://github.com/pytorch/pytorch/issues/41508
# ask: explain --nonfinite
# exit: 1
# says: all 4 numbers are [−-]Inf
# One sequence of the batch is empty: its keys are all padding.
import torch
from torch import nn

torch.manual_seed(0)
embed = nn.Embedding(10, 8, padding_idx=0)
attend = nn.MultiheadAttention(8, 2, batch_first=True)
out = nn.Linear(8, 2)
parameters = [p for part in (embed, attend, out) for p in part.parameters()]
optimizer = torch.optim.AdamW(parameters, lr=1e-3)
words = torch.tensor([[3, 4, 5, 0], [6, 7, 0, 0], [0, 0, 0, 0]])
labels = torch.tensor([0, 1, 1])
for step in range(3):
    x = embed(words)
    padded = words == 0
    attended, _ = attend(x, x, x, key_padding_mask=padded, need_weights=True)  # <- here
    loss = nn.functional.cross_entropy(out(attended.mean(1)), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
