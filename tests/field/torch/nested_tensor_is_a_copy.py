# from: own
# exit: 1
# says: embed
# says: tried: `words = torch\.nested\.as_nested_tensor\(
# never: ask again
# Sentences of several lengths become one nested tensor: of copies, which have no history.
import torch
from torch import nn

torch.manual_seed(0)
embed, head = nn.Embedding(20, 8), nn.Linear(8, 2)
optimizer = torch.optim.Adam([*embed.parameters(), *head.parameters()], lr=1e-2)
for step in range(4):
    sentences = [torch.randint(0, 20, (n,)) for n in (3, 5, 2, 4)]
    words = torch.nested.nested_tensor([embed(one) for one in sentences], layout=torch.jagged)  # <- here
    scores = head(words)
    pooled = torch.stack([one.mean(0) for one in scores.unbind()])
    loss = nn.functional.cross_entropy(pooled, torch.tensor([0, 1, 0, 1]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
