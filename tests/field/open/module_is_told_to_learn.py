# from: https://github.com/CSCYQJ/MICCAI23-ProtoContra-SFDA/issues/18
# exit: 1
# says: layer\.requires_grad = True
# says: requires_grad_\(|attribute
# says: 2 of 4 parameters got no gradient|0\.weight
# The attribute is put on modules: their parameters stay as frozen as they were.
import torch
from torch import nn

torch.manual_seed(0)
backbone = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
head = nn.Linear(8, 2)
backbone.requires_grad_(False)
optimizer = torch.optim.SGD([*backbone.parameters(), *head.parameters()], lr=0.1)
for epoch in range(4):
    if epoch == 0:
        for layer in backbone:
            layer.requires_grad = True  # <- here
    x, y = torch.randn(12, 4), torch.randint(0, 2, (12,))
    loss = nn.functional.cross_entropy(head(backbone(x)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
