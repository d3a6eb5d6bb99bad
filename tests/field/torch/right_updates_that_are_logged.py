# from: own
# never: got no gradient|exactly 0|useless|changes next to nothing|changes no|changes none|is dropped|cuts|cancel|unused|not used
# How far a step would go beside the size of each weight, computed for the log; accumulation over two batches.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(5, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for batch in range(6):
    x = torch.randn(10, 5)
    loss = (model(x) - x[:, :2]).square().mean() / 2
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            wanted = p - 0.01 * p.grad
            print(batch, float((wanted - p).norm() / p.norm()))
    if batch % 2:
        optimizer.step()
        optimizer.zero_grad()
