# from: own
# never: got no gradient|exactly 0|useless|changes no|changes next to nothing|is dropped|cuts|cancel|not used|no optimizer
# as_nested_tensor keeps the history of what it is made of.
import torch
from torch import nn

torch.manual_seed(0)
embed, head = nn.Embedding(20, 8), nn.Linear(8, 2)
optimizer = torch.optim.Adam([*embed.parameters(), *head.parameters()], lr=1e-2)
for step in range(4):
    sentences = [torch.randint(0, 20, (n,)) for n in (3, 5, 2, 4)]
    words = torch.nested.as_nested_tensor([embed(one) for one in sentences], layout=torch.jagged)
    scores = head(words)
    pooled = torch.stack([one.mean(0) for one in scores.unbind()])
    loss = nn.functional.cross_entropy(pooled, torch.tensor([0, 1, 0, 1]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
